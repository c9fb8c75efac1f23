# P01: the memory that a run is said to take is what it takes, to a fifth of it and to what the program itself is.
need python3
sanitized && skip "AddressSanitizer takes memory of its own"
unisono simulate -q --cells 200000 --dims 40 -o s.h5ad
unisono integrate s.h5ad --batch batch --clusters 100 --max-rounds 2 -q -o usual.npy --trace usual.json
unisono integrate s.h5ad --batch batch --clusters 100 --max-rounds 2 --low-memory -q -o low.npy --trace low.json
python3 - <<'END_OF_PYTHON'
import json
for name in ("usual", "low"):
    t = json.load(open(name + ".json"))
    said, took = t["memory_predicted_bytes"], t["memory_peak_bytes"]
    print(name, "as said" if 0.8 * said <= took <= 1.2 * said + 20e6 else (said, took))
END_OF_PYTHON
