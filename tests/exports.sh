#!/usr/bin/env bash
# Trains, exports and loads every built-in spec and variant, every model of the pages and 200 generated ones, and compares logits and
# gradients of PyTorch and onnxruntime with those of rtc. `cargo test` runs a third of them, by turns.
#
#   tests/exports.sh [NAME]      only the specs with NAME in their names
#
# RTC_TORCH_PYTHON names a Python with torch, onnx, onnxruntime and safetensors; without it one is made in target/torch. PROFILE (default
# release) is the profile of the build; with dev, a filled target/debug is used again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

RTC_TORCH_PYTHON=${RTC_TORCH_PYTHON:-$(tests/torch_python.sh target/torch)}
export RTC_TORCH_PYTHON RTC_TURN=${1:-all} OMP_NUM_THREADS=1
cargo test --profile "${PROFILE:-release}" -p rtc --test it export_paths:: --locked -- --nocapture
