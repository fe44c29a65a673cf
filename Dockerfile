# The demo as an ordinary user on a read-only root:
#   docker build -t crystalrl .
#   mkdir -p runs
#   docker run --rm --read-only --tmpfs /tmp -v "$PWD/runs:/runs" --user "$(id -u)" crystalrl
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN python -m venv /opt/crystalrl \
 && /opt/crystalrl/bin/pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu \
    -c constraints.txt '.[fast,study]'

FROM python:3.11-slim
COPY --from=build /opt/crystalrl /opt/crystalrl
RUN useradd --create-home --uid 1000 crystal && mkdir /runs && chown crystal /runs
# Compiled code, fonts and temporary files are the only things written outside /runs.
ENV PATH=/opt/crystalrl/bin:$PATH NUMBA_CACHE_DIR=/tmp/numba MPLCONFIGDIR=/tmp/matplotlib OMP_NUM_THREADS=1 \
    PYTHONDONTWRITEBYTECODE=1
USER crystal
WORKDIR /tmp
VOLUME /runs
ENTRYPOINT ["crystalrl"]
CMD ["demo", "--out", "/runs/demo"]
