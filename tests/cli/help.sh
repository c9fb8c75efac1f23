# Help goes to stdout with exit 0; the defaults in it come from the library.
try unisono --help
try unisono help help
unisono help integrate >a && unisono integrate --help >b && cmp a b
unisono help integrate | grep -E -- '--(sigma|theta|max-rounds|batch|basis) '
for s in integrate simulate compare backends; do
    unisono $s -h | sed -n 1p
done
