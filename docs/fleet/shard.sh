#!/usr/bin/env bash
# One task of a job that is divided: runs one part and leaves its record in RECORDS.
#
# shard.sh [ARGUMENTS OF sm121probe matrix]
# RECORDS   folder that all tasks share
# SHARDS    number of tasks; by default Slurm's own count
# The task's number, from 0: SLURM_ARRAY_TASK_ID (sbatch --array=0-7) or JOB_COMPLETION_INDEX (an indexed Job of Kubernetes).
set -euo pipefail
index=${SLURM_ARRAY_TASK_ID:-${JOB_COMPLETION_INDEX:?no task number: run this as a Slurm array or as an indexed Job}}
count=${SHARDS:-${SLURM_ARRAY_TASK_COUNT:?SHARDS is not set}}
mkdir -p "${RECORDS:?RECORDS is not set}"
# A record appears whole or not at all, so a task that is retried or killed leaves no partial record.
exec sm121probe matrix "$@" --shard "$((index + 1))/$count" --format json -o "$RECORDS/shard-$((index + 1))-of-$count.json"
