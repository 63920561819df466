#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""One task of inference.py: reads images from HDFS and says what is written on them.

The model is the one that Debian's package tesseract-ocr-eng brings: a recurrent neural network
(LSTM), run by libtesseract on one thread of the CPU. An image is one block of a file, WIDTH x
HEIGHT bytes of grey. With --map the task works off its rows of a block map when all tasks have
loaded the model, and writes its account; without, items come as lines `URI OFFSET`, and the
answer to each is the text (`phalanx-share --worker`).
"""

import argparse
import ctypes
import json
import os
import sys
import time
import urllib.parse

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "config", "examples"))
sys.dont_write_bytecode = True

from slow_nodes import enter, real_time
from wordcount import Hdfs

WIDTH, HEIGHT = 384, 176        # a block of HDFS is a multiple of 512 bytes
SINGLE_BLOCK = 6                # PSM_SINGLE_BLOCK of tesseract's API
LIBRARY = "libtesseract.so.5"


class Model:
    """The network, loaded once."""

    def __init__(self):
        os.environ["OMP_THREAD_LIMIT"] = "1"
        api = self.api = ctypes.CDLL(LIBRARY)
        pointer, number, text = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
        api.TessBaseAPICreate.restype = api.TessBaseAPIGetUTF8Text.restype = pointer
        api.TessBaseAPIInit3.argtypes = [pointer, text, text]
        api.TessBaseAPISetPageSegMode.argtypes = [pointer, number]
        api.TessBaseAPISetImage.argtypes = [pointer, text, *[number] * 4]
        api.TessBaseAPIGetUTF8Text.argtypes = api.TessDeleteText.argtypes = [pointer]
        self.handle = api.TessBaseAPICreate()
        if api.TessBaseAPIInit3(self.handle, None, b"eng"):
            sys.exit("no model: expected the package tesseract-ocr-eng")
        api.TessBaseAPISetPageSegMode(self.handle, SINGLE_BLOCK)

    def text(self, pixels):
        """What an image says, its lines joined by blanks."""
        self.api.TessBaseAPISetImage(self.handle, pixels, WIDTH, HEIGHT, 1, WIDTH)
        found = self.api.TessBaseAPIGetUTF8Text(self.handle)
        text = ctypes.string_at(found).decode()
        self.api.TessDeleteText(found)
        return " ".join(text.split())


def work(args, read):
    """The rows of this task, when all are ready."""
    task, node = int(os.environ["SLURM_PROCID"]), os.environ["SLURMD_NODENAME"]
    with open(args.map, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    rows = [row for row in rows if row[1] == node]
    with open(os.path.join(args.out, f"ready.{task}"), "w", encoding="utf-8"):
        pass
    while sum(name.startswith("ready.") for name in os.listdir(args.out)) < \
            int(os.environ["SLURM_NTASKS"]):
        time.sleep(0.01)
    enter(args.slow, node)
    begun = time.monotonic()
    texts = [[uri, int(offset), read(uri, int(offset))] for _, _, uri, offset, *_ in rows]
    account = {"node": node, "seconds": time.monotonic() - begun, "texts": texts,
               "local": sum(row[5] == "1" for row in rows)}
    with open(os.path.join(args.out, f"task.{task}"), "w", encoding="utf-8") as file:
        json.dump(account, file)


def main():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("namenode", help="WebHDFS, such as http://nn:9870")
    parser.add_argument("slow", help="directory of slow_nodes.py")
    parser.add_argument("--map", help="a block map as `phalanx-share --out` writes it")
    parser.add_argument("--out", help="directory for the accounts")
    args = parser.parse_args()
    real_time(1)
    hosts = {f"n{i}": "127.0.0.1" for i in range(1, 100)}
    hdfs, model = Hdfs(args.namenode, "root", hosts), Model()

    def read(uri, offset):
        path = urllib.parse.urlsplit(uri).path
        return model.text(hdfs.read(path, offset, WIDTH * HEIGHT))

    if args.map:
        work(args, read)
        return
    enter(args.slow, os.environ["SLURMD_NODENAME"])
    for line in sys.stdin:
        uri, offset = line.split()
        print(read(uri, int(offset)), flush=True)


if __name__ == "__main__":
    main()
