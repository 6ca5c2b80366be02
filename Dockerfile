# The software of a run, from the lock file: `make image` builds it, `snakemake --sdm apptainer` runs jobs in it. The
# driver comes from the machine, with apptainer's --nv or docker's --gpus.
FROM python:3.12-slim-bookworm

# cuda13, cuda12 or compile (no GPU): the name of a lock file.
ARG EXTRA=cuda13
# Rows name the commit that measured them.
ARG COMMIT=unknown
ENV SPMM_ROOFLINE_COMMIT=${COMMIT}

WORKDIR /opt/spmm-roofline
COPY envs/lock-build.txt envs/lock-${EXTRA}.txt envs/
RUN python -m pip install --no-cache-dir --no-deps --require-hashes -r envs/lock-build.txt \
    && python -m pip install --no-cache-dir --no-deps --require-hashes --no-build-isolation -r "envs/lock-${EXTRA}.txt"

COPY pyproject.toml setup.py MANIFEST.in README.md LICENSE Snakefile ./
COPY config config
COPY envs envs
COPY kernels kernels
COPY profiles profiles
COPY report report
COPY resources resources
COPY workflow workflow
RUN python -m pip install --no-cache-dir --no-deps --no-build-isolation --editable .

CMD ["python", "-m", "snakemake", "--cores", "all", "report"]
