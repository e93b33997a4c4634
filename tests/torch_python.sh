#!/usr/bin/env bash
# Makes a Python environment with the current PyTorch, onnxruntime and transformers, and prints the path of its interpreter.
#
#   tests/torch_python.sh FOLDER [SECONDS]     900 seconds unless given
#
# A complete environment in FOLDER is used again, one that this script left half-filled is made again, and any other folder is left alone.
# Ends with 2 where there is no Python with venv, or no package index gives the packages in time.
set -euo pipefail

folder=${1:?the folder of the environment}
seconds=${2:-900}
packages=(torch onnx onnxruntime numpy safetensors pyarrow transformers)

missing() {
    echo "tests/torch_python.sh: $*" >&2
    exit 2
}

if ! "$folder/bin/python" -c 'import torch, onnx, onnxruntime, numpy, safetensors, pyarrow, transformers' 2> /dev/null; then
    [[ ! -e "$folder" || -e "$folder/.rtc" ]] || missing "$folder exists and has not all of ${packages[*]}: name another folder"
    command -v python3 > /dev/null || missing "there is no python3"
    rm -rf "$folder"
    mkdir -p "$folder"
    touch "$folder/.rtc"
    python3 -m venv "$folder" > /dev/null 2>&1 || missing "python3 has no venv (Debian: python3-venv)"
    timeout "$seconds" "$folder/bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 20 "${packages[@]}" >&2 ||
        missing "no package index gave ${packages[*]} within $seconds seconds"
fi
cd "$folder" && echo "$PWD/bin/python"
