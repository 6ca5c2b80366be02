"""Put pip into the virtual environment that runs this file: `.venv/bin/python envs/bootstrap_pip.py`.

Python's own ensurepip does this if it is installed. Debian and Ubuntu put it in a separate package (python3-venv), so a
fresh machine lacks it. The script then fetches the pip that envs/lock-build.txt pins from the package index and checks
its hash. It needs only the standard library, and no root.

The index is that of pip: PIP_INDEX_URL, PIP_EXTRA_INDEX_URL and the [global] and [install] sections of pip's
configuration files, otherwise https://pypi.org/simple. Certificates come from PIP_CERT or from Python.
"""

from __future__ import annotations

import configparser
import hashlib
import os
import re
import ssl
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urldefrag, urljoin
from urllib.request import urlopen

LOCK = Path(__file__).with_name("lock-build.txt")
CONFIGURATIONS = ("/etc/pip.conf", "/etc/xdg/pip/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")


def main() -> None:
    ensurepip = [sys.executable, "-m", "ensurepip", "--default-pip"]
    if subprocess.run(ensurepip, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
        return
    version, hashes = pinned("pip", LOCK.read_text())
    print(f"ensurepip is not installed: fetching pip {version} from the package index", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        wheel = fetch(f"pip-{version}-py3-none-any.whl", hashes, Path(folder))
        # A wheel is a zip archive, and Python runs a package inside one.
        install = [sys.executable, f"{wheel}/pip", "install", "--quiet", "--no-index", str(wheel)]
        subprocess.run(install, check=True)


def pinned(package: str, lock: str) -> tuple[str, set[str]]:
    """Version and SHA-256 hashes of ``package`` in the text of a lock file."""
    match = re.search(rf"^{package}==(\S+)((?:\s*\\\s*--hash=sha256:[0-9a-f]{{64}})+)", lock, re.MULTILINE)
    if not match:
        raise SystemExit(f"{LOCK} pins no {package} with a hash: make it again with `make lock`")
    return match[1], set(re.findall(r"sha256:([0-9a-f]{64})", match[2]))


def fetch(name: str, hashes: set[str], folder: Path) -> Path:
    """Download the wheel ``name`` from the first index that has it with one of ``hashes``."""
    tried = []
    for index in indexes():
        page_url = f"{index.rstrip('/')}/pip/"
        try:
            page = download(page_url).decode()
            for url in links(page, page_url):
                if urldefrag(url).url.endswith(f"/{name}"):
                    content = download(urldefrag(url).url)
                    found = hashlib.sha256(content).hexdigest()
                    if found in hashes:
                        path = folder / name
                        path.write_bytes(content)
                        return path
                    tried.append(f"{url} has the SHA-256 {found}, which is not in {LOCK.name}")
            tried.append(f"{page_url} offers no {name} with the locked hash")
        except OSError as error:
            tried.append(f"{page_url}: {error}")
    raise SystemExit(
        f"pip could not be fetched; install the system's package python3-venv, or set PIP_INDEX_URL to a package index "
        f"that this machine reaches. Tried: {'; '.join(tried)}"
    )


def indexes() -> list[str]:
    """Base URLs of the package indexes in pip's order: variables take precedence over configuration files."""
    settings: dict[str, str] = {}
    for name in (*CONFIGURATIONS, os.environ.get("PIP_CONFIG_FILE", "")):
        parser = configparser.RawConfigParser()
        parser.read(os.path.expanduser(name))
        for section in ("global", "install"):
            if parser.has_section(section):
                settings.update(parser.items(section))
    first = os.environ.get("PIP_INDEX_URL") or settings.get("index-url", "https://pypi.org/simple")
    extra = os.environ.get("PIP_EXTRA_INDEX_URL") or settings.get("extra-index-url", "")
    return [first, *extra.split()]


def links(page: str, page_url: str) -> list[str]:
    """URLs of all files on a page of a simple index (PEP 503)."""
    found: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: found.extend(  # type: ignore[method-assign]
        urljoin(page_url, value) for key, value in attributes if tag == "a" and key == "href" and value
    )
    parser.feed(page)
    return found


def download(url: str) -> bytes:
    certificates = os.environ.get("PIP_CERT")
    with urlopen(url, timeout=60, context=ssl.create_default_context(cafile=certificates)) as response:
        return response.read()


if __name__ == "__main__":
    main()
