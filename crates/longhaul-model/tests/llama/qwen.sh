#!/usr/bin/env bash
# Serves Qwen2.5-Coder-1.5B-Instruct, a real model that calls tools, until it is stopped with Ctrl-C.
#
#     crates/longhaul-model/tests/llama/qwen.sh [port]
#
# The base address is printed when the model is loaded; the model is called `qwen` there, and any key will do. The first
# time 1.1 GB are fetched. It needs 2 GB of memory and says a handful of words in a second, so give it short prompts.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
model=$("$here/fetch.sh" qwen)
# The template in the file makes the model write its calls as prose, which no server takes for calls.
exec "$(dirname "$model")/venv/bin/python" "$here/serve.py" --model "$model" --name qwen --port "${1:-0}" \
    --context 16384 --template "$here/tools.jinja" 2>"$(dirname "$model")/qwen.log"
