# Prints one sum over the names and bytes of all files of the image that this sandbox stands on.
import os
import zlib

total = count = 0
for top in "/usr", "/opt", "/lib", "/lib64":
    for directory, below, names in os.walk(top):
        below.sort()
        for name in sorted(names):
            path = os.path.join(directory, name)
            total = zlib.crc32(path.encode(), total)
            if os.path.isfile(path):
                with open(path, "rb") as f:
                    total = zlib.crc32(f.read(), total)
                count += 1
print(f"{count} files, sum {total:08x}")
