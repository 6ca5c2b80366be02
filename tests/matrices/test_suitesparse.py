"""The download against a real local HTTP server with a real .tar.gz, misbehaving in every known way."""

import gzip
import hashlib
import io
import os
import socket
import subprocess
import sys
import tarfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from scipy.io import mmwrite
from scipy.sparse import random_array

from spmm_roofline import contracts
from spmm_roofline.matrices import build, expand, load, transfer
from spmm_roofline.matrices.canonical import MatrixError

PATH = "/MM/HB/sample.tar.gz"
PAGE = b"<!DOCTYPE html><html><body>The page you were looking for does not exist.</body></html>"
INDEX = b"""5
31-Oct-2023 18:12:37
HB,sample,40,50,200,1,0,0,0,0.1,0.1,structural problem,200
HB,simple,12000,12000,99999,1,0,1,1,1,1,2D/3D problem,99999
QCD,quarks,12000,12000,5000,0,0,0,0,1,1,theoretical/quantum chemistry problem,5000
Newman,football,35000,20000,600,1,1,0,0,1,1,undirected graph,600
Pajek,football,35000,35000,700,1,1,0,0,1,1,directed graph,700
"""


class Server:
    """Serves ``answers[path]``: one answer, or a list of answers given one after the other (the last one repeats).

    An answer is (status, body) or (status, body, bytes after which the connection is cut, and an event to wait for
    before that, if any). The body of a redirection is where it points.
    """

    def __init__(self):
        self.answers, self.requests = {}, []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.requests.append(self.path)
                answers = outer.answers.get(self.path, [(404, PAGE)])
                status, body, *cut = answers.pop(0) if len(answers) > 1 else answers[0]
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                if 300 <= status < 400:
                    self.send_header("Location", body.decode())
                self.end_headers()
                self.wfile.write(body[: cut[0]] if cut else body)
                if cut:
                    self.wfile.flush()
                    if cut[1:]:
                        cut[1].wait()
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.handle_error = lambda *_: None  # connections are cut on purpose
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(transfer, "BACK_OFF_S", 0.01)
    running = Server()
    yield running
    running.close()


@pytest.fixture(scope="module")
def matrix():
    return random_array((40, 50), density=0.1, rng=np.random.default_rng(5), format="csr")


def tar_gz(members):
    """Bytes of a .tar.gz from {name: content, or a TarInfo}."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in members.items():
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return stream.getvalue()


@pytest.fixture(scope="module")
def mtx(matrix):
    stream = io.BytesIO()
    mmwrite(stream, matrix, precision=17)
    return stream.getvalue()


@pytest.fixture(scope="module")
def archive(mtx):
    # The collection's archives hold right-hand sides and coordinates as well.
    return tar_gz({"sample/sample_b.mtx": b"%%MatrixMarket matrix array real general\n", "sample/sample.mtx": mtx})


class Case:
    """One attempt to build HB/sample from a server into a folder."""

    def __init__(self, server, folder):
        self.server, self.folder = server, folder
        settings = {"mirror": server.url, "retries": 2}
        self.config = {"matrices": {"cache": str(folder / "cache"), "suitesparse": settings}}
        self.npz = folder / "out" / "sample.npz"

    @property
    def settings(self):
        return self.config["matrices"]["suitesparse"]

    def build(self, name="HB/sample"):
        (spec,) = expand({"name": "test", "matrices": {"suitesparse": [name]}}, self.config)
        build(spec, self.config, str(self.npz), str(self.npz.with_suffix(".json")))
        return load(self.npz)

    def refused(self, message, name="HB/sample"):
        with pytest.raises(MatrixError, match=message) as error:
            self.build(name)
        assert not self.npz.exists()
        left = [each for each in self.folder.rglob("*") if each.is_file() and each.name != "ssstats.csv"]
        assert left == [], "nothing half-written stays"
        assert not list(self.folder.rglob(".download-*"))
        return str(error.value)

    def asked(self, path=PATH):
        return self.server.requests.count(path)


@pytest.fixture
def case(server, tmp_path):
    return Case(server, tmp_path)


def test_download_reads_the_matrix_and_keeps_the_archive(case, archive, matrix, capfd):
    case.server.answers[PATH] = [(200, archive)]
    assert np.array_equal(case.build().toarray(), matrix.toarray())
    kept = case.folder / "cache" / "suitesparse" / "MM" / "HB" / "sample.tar.gz"
    assert kept.read_bytes() == archive
    assert [each.name for each in kept.parent.iterdir()] == ["sample.tar.gz"]
    assert "sample.tar.gz" in capfd.readouterr().err  # the progress bar
    (row,) = contracts.read_rows([case.npz.with_suffix(".json")], "matrices").to_dict("records")
    assert (row["source"], row["origin"]) == ("suitesparse", "HB/sample")
    case.build()
    assert case.server.requests == [PATH]  # the second time comes from the cache, and no index was asked for


def test_archive_in_the_cache_needs_no_network(tmp_path, archive, matrix):
    kept = tmp_path / "suitesparse" / "MM" / "HB" / "sample.tar.gz"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(archive)
    config = {"matrices": {"cache": str(tmp_path), "suitesparse": {"mirror": "http://127.0.0.1:9", "retries": 0}}}
    (spec,) = expand({"name": "test", "matrices": {"suitesparse": ["HB/sample"]}}, config)
    build(spec, config, str(tmp_path / "a.npz"), str(tmp_path / "a.json"))
    assert np.array_equal(load(tmp_path / "a.npz").toarray(), matrix.toarray())


def test_an_archive_that_the_user_put_there_is_checked_to_its_end(case, archive):
    kept = case.folder / "cache/suitesparse/MM/HB/sample.tar.gz"
    kept.parent.mkdir(parents=True)
    other_checksum = archive[:-8] + bytes([archive[-8] ^ 1]) + archive[-7:]
    for content in (other_checksum, archive[:-4], PAGE):
        kept.write_bytes(content)
        with pytest.raises(MatrixError, match=r"not a whole .tar.gz; .*; delete .*sample.tar.gz and run again"):
            case.build()
    kept.write_bytes(tar_gz({"sample/sample.mtx": symbolic_link("sample/sample.mtx", "/etc/passwd")}))
    with pytest.raises(MatrixError, match=r"holds a link, .*; delete .*sample.tar.gz and run again"):
        case.build()
    assert case.server.requests == []


def test_hash(case, archive):
    case.server.answers[PATH] = [(200, archive)]
    case.settings["sha256"] = {"HB/sample": hashlib.sha256(b"something else").hexdigest()}
    case.refused("what arrived does not have the SHA-256 .* of the configuration")
    case.settings["sha256"] = {"HB/sample": hashlib.sha256(archive).hexdigest()}
    assert case.build().nnz == 200
    case.settings["sha256"] = {"HB/sample": hashlib.sha256(b"something else").hexdigest()}
    with pytest.raises(MatrixError, match=r"sample.tar.gz: does not have the SHA-256 .*; delete it"):
        case.build()  # out of the cache


def test_server_dies_half_way_and_comes_back(case, archive, matrix):
    case.server.answers[PATH] = [(200, archive, len(archive) // 2), (503, b"busy"), (200, archive)]
    assert np.array_equal(case.build().toarray(), matrix.toarray())
    assert case.asked() == 3


def test_server_dies_for_good(case, archive):
    case.server.answers[PATH] = [(200, archive, len(archive) // 2)]
    case.refused("the transfer failed: .*tried 3 times; run again later, or put the file at .*sample.tar.gz yourself")
    assert case.asked() == 3


def test_server_that_is_not_there(case):
    case.settings["mirror"] = "http://127.0.0.1:9"
    case.refused("http://127.0.0.1:9/MM/HB/sample.tar.gz: the transfer failed")


@pytest.mark.parametrize("fraction", [0.3, 0.7, 0.99])
def test_truncated_archive_is_tried_again_and_refused(case, archive, fraction):
    # The announced length is that of the truncated body: only the archive itself shows the truncation.
    part = archive[: int(len(archive) * fraction)]
    case.server.answers[PATH] = [(200, part)]
    case.refused("not a whole .tar.gz; what arrived is truncated or damaged")
    assert case.asked() == 3
    case.server.answers[PATH] = [(200, part), (200, archive)]
    assert case.build().nnz == 200


def test_damaged_archive_is_refused(case, archive):
    flipped = bytearray(archive)
    flipped[len(archive) // 2] ^= 0xFF
    case.server.answers[PATH] = [(200, bytes(flipped))]
    case.refused("truncated or damaged")


def test_a_download_that_is_killed_is_swept_away_by_the_next_one(case, archive):
    stalled = threading.Event()
    case.server.answers[PATH] = [(200, archive, len(archive) // 2, stalled), (200, archive)]
    target = case.folder / "cache/suitesparse/MM/HB/sample.tar.gz"
    fetch = "import sys, pathlib; from spmm_roofline.matrices import transfer\n"
    fetch += "transfer.download(sys.argv[1], pathlib.Path(sys.argv[2]))"
    process = subprocess.Popen(
        [sys.executable, "-c", fetch, case.server.url + PATH, target],
        env={**os.environ, "PYTHONPATH": str(Path(contracts.__file__).parents[1])},
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while not list(target.parent.glob(".download-*/*")):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        transfer._sweep(target)
        assert list(target.parent.glob(".download-*/*")), "a download under way is left alone"
    finally:
        process.kill()
        process.wait()
        stalled.set()
    assert list(target.parent.glob(".download-*"))
    assert case.build().nnz == 200
    assert [each.name for each in target.parent.iterdir()] == ["sample.tar.gz"]


def test_404_is_not_tried_again_and_names_close_ones(case):
    case.server.answers["/files/ssstats.csv"] = [(200, INDEX)]
    said = case.refused("the server answered 404", name="HB/sampel")
    assert "The collection has no HB/sampel; did you mean HB/sample" in said
    assert case.asked("/MM/HB/sampel.tar.gz") == 1
    assert "did you mean HB/sample?" in case.refused("404", name="BH/sample")
    assert "The collection has HB/sample; try another" in case.refused("404")


def test_404_without_an_index(case):
    said = case.refused("the server answered 404")
    assert "index cannot be had either" in said


def test_page_with_status_200_is_refused(case):
    case.server.answers[PATH] = [(200, PAGE)]
    case.server.answers["/files/ssstats.csv"] = [(200, PAGE)]
    said = case.refused("what arrived starts with b'<!DOCTYPE html>.': not an archive")
    assert "index cannot be had either" in said


def symbolic_link(name, target):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("../../escape.mtx", b"x", "written elsewhere"),
        ("/tmp/spmm-roofline-escape.mtx", b"x", "written elsewhere"),
        ("sample/../../escape.mtx", b"x", "written elsewhere"),
        ("sample/link", symbolic_link("sample/link", "/etc/passwd"), "holds a link, 'sample/link'"),
    ],
)
def test_archive_that_would_write_elsewhere_is_refused(case, mtx, name, content, message):
    case.server.answers[PATH] = [(200, tar_gz({"sample/sample.mtx": mtx, name: content}))]
    case.refused(message)
    assert case.asked() == 1


def zeros(size):
    info = tarfile.TarInfo("sample/zeros.mtx")
    info.size = size
    return info


def test_an_archive_that_would_fill_the_disk_is_refused_before_it_does(case, monkeypatch):
    monkeypatch.setattr(transfer, "ROOM_BYTES", 1 << 20)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        tar.addfile(zeros(64 << 20), io.BytesIO(bytes(64 << 20)))
    assert len(stream.getvalue()) < 1 << 18
    case.server.answers[PATH] = [(200, stream.getvalue())]
    case.refused("unpacks to more than 200 times its size")
    assert case.asked() == 1


def test_bytes_behind_an_archive_count_as_well(case, mtx, monkeypatch):
    monkeypatch.setattr(transfer, "ROOM_BYTES", 1 << 20)
    whole = gzip.decompress(tar_gz({"sample/sample.mtx": mtx})) + bytes(64 << 20)
    case.server.answers[PATH] = [(200, gzip.compress(whole))]
    case.refused("unpacks to more than 200 times its size")


def test_a_mirror_may_redirect_to_another_server_but_not_to_a_file(case, mtx, tmp_path_factory):
    secret = tmp_path_factory.mktemp("elsewhere") / "secret.tar.gz"
    secret.write_bytes(tar_gz({"sample/sample.mtx": mtx}))
    case.server.answers[PATH] = [(302, secret.as_uri().encode())]
    case.refused("the transfer failed: No connection adapters were found for 'file:")
    case.server.answers[PATH] = [(302, b"/elsewhere.tar.gz")]
    case.server.answers["/elsewhere.tar.gz"] = [(200, secret.read_bytes())]
    case.build()


def test_link_instead_of_the_matrix_is_refused(case):
    link = symbolic_link("sample/sample.mtx", "/etc/passwd")
    case.server.answers[PATH] = [(200, tar_gz({"sample/sample.mtx": link}))]
    case.refused("holds a link")


def test_archive_without_the_matrix(case):
    case.server.answers[PATH] = [(200, tar_gz({"sample/other.mtx": b"x"}))]
    with pytest.raises(MatrixError, match=r"the archive holds no sample/sample.mtx; delete it and run again"):
        case.build()


# --- index ------------------------------------------------------------------------------------------------------------


def query(case, **keys):
    case.server.answers.setdefault("/files/ssstats.csv", [(200, INDEX)])
    return expand({"name": "test", "matrices": {"suitesparse": [{"query": keys}]}}, case.config)


def test_query_expands_through_the_index_once(case):
    specs = query(case, rows=[10_000, 100_000])
    assert [(each["matrix"], each["group"], each["kind"]) for each in specs] == [
        ("simple", "HB", "mesh"),
        ("football.Newman", "Newman", "graph"),
        ("football.Pajek", "Pajek", "graph"),
    ]  # the complex one is left out; a name that the collection uses twice carries its group
    assert [each["matrix"] for each in query(case, columns=[45, 50])] == ["sample"]
    assert [each["matrix"] for each in query(case, nnz=[600, 700])] == ["football.Newman", "football.Pajek"]
    assert [each["matrix"] for each in query(case, group="Pajek")] == ["football.Pajek"]
    assert {each["kind"] for each in query(case, kind="graph")} == {"graph"}
    assert len(query(case, rows=[10_000, 100_000], limit=2)) == 2
    assert case.server.requests == ["/files/ssstats.csv"]
    with pytest.raises(MatrixError, match="no matrix of the SuiteSparse collection fits"):
        query(case, rows=[1, 2])


@pytest.mark.parametrize("name", ["../../../etc,cron", "HB,../../x", "HB,$(id)", "HB,a;b", "-rf,x"])
def test_an_index_that_leads_elsewhere_is_refused(case, name):
    row = f"{name},12345,50,200,1,0,0,0,0.1,0.1,structural problem,200\n".encode()
    case.server.answers["/files/ssstats.csv"] = [(200, INDEX.replace(b"5\n", b"6\n", 1) + row)]
    with pytest.raises(MatrixError, match=r"the collection's index names .*, which is no path in its archive"):
        query(case, rows=[12345, 12345])


def test_query_without_an_index(case):
    case.server.answers["/files/ssstats.csv"] = [(200, PAGE)]
    with pytest.raises(MatrixError, match="what arrived is not the collection's index"):
        query(case, rows=[1, 2])
    assert not list(case.folder.rglob("ssstats.csv"))


def test_ssgetpy_touches_neither_network_nor_home(case, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in [name for name in sys.modules if name.split(".")[0] == "ssgetpy"]:
        monkeypatch.delitem(sys.modules, name)
    query(case, rows=[10_000, 100_000])
    assert case.server.requests == ["/files/ssstats.csv"]
    assert not (tmp_path / "home").exists()


def test_explicit_names_need_no_index(case):
    wanted = ["HB/sample", {"name": "HB/simple", "kind": "mesh"}]
    specs = expand({"name": "test", "matrices": {"suitesparse": wanted}}, case.config)
    assert [(each["matrix"], each["kind"]) for each in specs] == [("sample", "unclassified"), ("simple", "mesh")]
    assert case.server.requests == []
    twice = {"name": "test", "matrices": {"suitesparse": ["Newman/football", "Pajek/football"]}}
    with pytest.raises(MatrixError, match="two matrices are called 'football'"):
        expand(twice, case.config)
