#!/usr/bin/env bash
# Compares the emulator on the nine programs with native code of this CPU: CPU seconds on one thread, in one table.
#
# compare.sh [NAME...]   all programs, or those named
# HIP_CPU                checkout of HIP-CPU; without it, HIP-CPU is left out
# EMULATOR_BENCH         binary of `cargo bench --bench programs`; without it, cargo builds and runs it
# REPEAT                 how often everything is measured; the shortest times count (3)
# CC, CXX                compilers (cc, c++)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cc=${CC:-cc} cxx=${CXX:-c++}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

left_out() { echo "$1 is left out: $2" >&2; }
has_header() { echo "#include <$1>" | "$cxx" -x c++ -E - > "$work/found" 2>&1; }

# Everything runs on the first CPU that this process may use, so that no machine has more than one thread.
cpu=$(awk '/^Cpus_allowed_list:/ { split($2, cpus, /[-,]/); print cpus[1] }' /proc/self/status)
alone() { taskset -c "$cpu" "$@"; }

hip=
if [ -z "${HIP_CPU:-}" ]; then
    left_out HIP-CPU 'set HIP_CPU to a checkout of it'
elif [ ! -f "$HIP_CPU/include/hip/hip_runtime.h" ]; then
    left_out HIP-CPU 'HIP_CPU has no include/hip/hip_runtime.h'
elif ! has_header tbb/global_control.h; then
    left_out HIP-CPU 'install libtbb-dev'
else
    "$cxx" -std=c++17 -O3 -march=native -DNDEBUG -fopenmp-simd -fno-math-errno -Wno-unknown-pragmas -isystem "$HIP_CPU/include" \
        "$here/hip.cpp" -o "$work/hip" -ltbb -ldl -pthread
    hip=1
fi

export POCL_MAX_PTHREAD_COUNT=1 POCL_CACHE_DIR="$work"
pocl=
if ! has_header CL/cl.h; then
    left_out POCL 'install ocl-icd-opencl-dev and pocl-opencl-icd'
else
    "$cc" -std=c11 -O3 -march=native "$here/opencl.c" -o "$work/opencl" -lOpenCL -lm
    # It builds the kernels and measures none.
    code=0
    "$work/opencl" "$here/opencl.cl" none || code=$?
    case $code in
        0) pocl=1 ;;
        3) left_out POCL 'install pocl-opencl-icd' ;;
        *) exit "$code" ;;
    esac
fi

if [ -z "$hip$pocl" ]; then
    echo 'there is nothing to compare the emulator with' >&2
    exit 3
fi

if [ -n "${EMULATOR_BENCH:-}" ]; then
    emulator() { alone "$EMULATOR_BENCH" --bench "$@"; }
else
    in_workspace() { (cd "$here" && "$@"); }
    in_workspace cargo bench -p sm121probe-emulator --bench programs --no-run
    emulator() { in_workspace alone cargo bench -q -p sm121probe-emulator --bench programs -- "$@"; }
fi

# Lines of a column, a program and seconds.
for ((i = 0; i < ${REPEAT:-3}; ++i)); do
    emulator "$@" | awk '$3 == "s" && $5 == "s" { print "all", $1, $2; print "none", $1, $4 }' >> "$work/times"
    if [ -n "$hip" ]; then alone "$work/hip" "$@" | sed 's/^/hip /' >> "$work/times"; fi
    if [ -n "$pocl" ]; then alone "$work/opencl" "$here/opencl.cl" "$@" | sed 's/^/pocl /' >> "$work/times"; fi
done

awk '
    function milliseconds(column, name) { return (column, name) in best ? sprintf("%.2f ms", best[column, name] * 1000) : "-" }
    function ratio(column, name,    value) {
        if (!((column, name) in best)) return "-"
        value = best["all", name] / best[column, name]
        logarithms[column] += log(value)
        ++counted[column]
        return sprintf("%.1f", value)
    }
    function mean(column) { return counted[column] ? sprintf("%.1f", exp(logarithms[column] / counted[column])) : "-" }
    function row(a, b, c, d, e, f, g) { printf "%-14s | %10s | %10s | %10s | %10s | %17s | %14s\n", a, b, c, d, e, f, g }
    $1 == "all" && !seen[$2]++ { names[++count] = $2 }
    !(($1, $2) in best) || $3 < best[$1, $2] { best[$1, $2] = $3 }
    END {
        row("program", "all rules", "no rules", "HIP-CPU", "POCL", "all rules/HIP-CPU", "all rules/POCL")
        for (i = 1; i <= count; ++i) {
            name = names[i]
            row(name, milliseconds("all", name), milliseconds("none", name), milliseconds("hip", name), milliseconds("pocl", name),
                ratio("hip", name), ratio("pocl", name))
        }
        row("geometric mean", "", "", "", "", mean("hip"), mean("pocl"))
        if (!count) { print "no program has such a name" > "/dev/stderr"; exit 2 }
    }
' "$work/times"
