#!/usr/bin/env bash
# Runs programs on a GPU and under `exec`, and compares what they print and how they end.
#
# on_gpu.sh SM121PROBE GPU 'PROGRAM ARGS'…   GPU as `exec --gpu` takes it, such as h100
# EXEC_IGNORE                                a regular expression of lines that differ by themselves, such as times
set -uo pipefail
probe=$1 gpu=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
kept() { grep -Ev "${EXEC_IGNORE:-^\$}" "$1"; }
wrong=0
for program; do
    # Words of the program, split as a shell does.
    bash -c "$program" > "$work/gpu" 2>/dev/null
    on_gpu=$?
    bash -c "exec $(printf %q "$probe") exec --gpu $(printf %q "$gpu") -o $(printf %q "$work/report") -- $program" > "$work/exec" 2>/dev/null
    under_exec=$?
    if [ "$on_gpu" = "$under_exec" ] && diff <(kept "$work/gpu") <(kept "$work/exec") > "$work/diff"; then
        echo "equal: $program (exit code $on_gpu, $(wc -l < "$work/gpu") lines)"
    else
        echo "DIFFERS: $program (exit codes $on_gpu on the GPU, $under_exec under exec)"
        head -20 "$work/diff"
        tail -5 "$work/report"
        wrong=$((wrong + 1))
    fi
done
exit "$((wrong != 0))"
