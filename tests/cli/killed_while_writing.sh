# Kill -9 at 50 random moments of a write, over an existing file and in place: the target is the old file or the new one, never
# anything else, and what a killed run left does not disturb the next. SIGTERM at such moments leaves nothing at all.
need python3
unisono simulate -q --cells 60000 --dims 30 -o s.h5ad
python3 "$HERE/kill_writers.py"
