#!/usr/bin/env bash
# When all tasks have ended: one record of all parts, or which parts are missing.
#
# collect.sh OUTPUT.json
# RECORDS, SHARDS   as for shard.sh
set -euo pipefail
: "${RECORDS:?RECORDS is not set}" "${SHARDS:?SHARDS is not set}"
missing=0
parts=()
for n in $(seq 1 "$SHARDS"); do
    part="$RECORDS/shard-$n-of-$SHARDS.json"
    parts+=("$part")
    if [ ! -f "$part" ]; then
        echo "part $n of $SHARDS is missing: $part" >&2
        missing=1
    fi
done
[ "$missing" = 0 ] || exit 120
exec sm121probe merge "${parts[@]}" --format json -o "$1"
