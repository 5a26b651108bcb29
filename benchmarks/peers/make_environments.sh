#!/bin/sh
# Makes the environments of the peers: make_environments.sh DIRECTORY [PYTHON [NAME…]]
#
# DIRECTORY/jax         celerite2, tinygp, GPyTorch
# DIRECTORY/tensorflow  GPflow
# DIRECTORY/markovflow  Markovflow
# DIRECTORY/forecasts   statsforecast, Prophet, the series of M3; only where it is named
# DIRECTORY/clusters    Dask, Ray, Spark; only where it is named
#
# PYTHON (default python3.11) must be one that TensorFlow and Markovflow have wheels for. An
# environment that is ready stays as it is; one whose requirements have changed is made again.
set -eu

if [ $# -lt 1 ]; then
    echo "usage: make_environments.sh DIRECTORY [PYTHON [NAME…]]" >&2
    exit 2
fi
directory=$1
python=${2:-python3.11}
shift
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- jax tensorflow markovflow
here=$(cd "$(dirname "$0")" && pwd)

if ! command -v "$python" >/dev/null 2>&1; then
    echo "make_environments.sh: no $python here; name another: make_environments.sh DIRECTORY PYTHON" >&2
    exit 1
fi
mkdir -p "$directory"

make_environment() {
    requirements=$here/requirements-$1.txt
    ready=$directory/$1/ready
    log=$directory/$1.log
    if cmp -s "$requirements" "$ready"; then
        return
    fi
    echo "making $directory/$1 …"
    if "$python" -m venv --clear "$directory/$1" >"$log" 2>&1 &&
        "$directory/$1/bin/python" -m pip install --disable-pip-version-check \
            -r "$requirements" >>"$log" 2>&1; then
        cp "$requirements" "$ready"
    else
        tail -n 15 "$log" >&2
        echo "make_environments.sh: could not make the environment $1; all of pip's words: $log" >&2
        exit 1
    fi
}

for name in "$@"; do
    make_environment "$name"
done
