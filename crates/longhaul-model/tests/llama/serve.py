#!/usr/bin/env python3
"""Serves a GGUF file on 127.0.0.1 with llama.cpp's own server, which the Python package xllamacpp carries.

One port answers Chat Completions, Responses and Anthropic Messages. The base address is printed when the model is
loaded, and nothing before it; the server's own log goes to stderr. It ends on SIGINT or SIGTERM, and with --attached
also when its stdin closes, so that it never outlives the test that started it.
"""

import argparse
import pathlib
import signal
import sys
import threading
import time
import urllib.error
import urllib.request

import xllamacpp


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="the GGUF file")
    parser.add_argument("--name", required=True, help="what the server calls the model")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--context", type=int, default=8192, help="tokens of prompt and reply, shared by the slots")
    parser.add_argument("--slots", type=int, default=1, help="requests answered at once")
    # On cores that others use too, a second thread makes everything several times slower.
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--template", type=pathlib.Path, help="a chat template instead of the one in the file")
    parser.add_argument("--attached", action="store_true", help="end when stdin closes")
    return parser.parse_args()


def parameters(args):
    params = xllamacpp.CommonParams()
    params.model.path = args.model
    # A plain name in older versions of the package, a set of names in newer ones.
    params.model_alias = {args.name} if isinstance(params.model_alias, set) else args.name
    params.hostnames = ["127.0.0.1"]
    params.port = args.port
    params.n_ctx = args.context
    params.n_parallel = args.slots
    # A full context drops its oldest half and goes on, so a reply without a limit never ends by itself.
    params.ctx_shift = True
    params.use_jinja = True
    if args.template:
        params.chat_template = args.template.read_text(encoding="utf-8")
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads = args.threads
        cpu.poll = 0
    return params


def wait_until_loaded(address):
    while True:
        try:
            with urllib.request.urlopen(address + "/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.05)


def main():
    args = arguments()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    if args.attached:
        threading.Thread(target=lambda: (sys.stdin.buffer.read(), stop.set()), daemon=True).start()
    server = xllamacpp.Server(parameters(args))
    address = server.listening_address
    wait_until_loaded(address)
    print(address, flush=True)
    stop.wait()
    del server


main()
