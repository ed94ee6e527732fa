#!/bin/sh
# test_packing.sh - the programs of examples/PACKING.md pack what one machine packs, and can be started again
#
#     sh tests/tool/test_packing.sh build/bzna build        from the repository's root
#
# RAY_PYTHON: a python that has ray, if $PYTHON has not. Slurm is played by a script that runs what it is given.
. tests/tool/tool.sh
bzna=$(cd "$(dirname "$bzna")" && pwd)/$(basename "$bzna")
page=$(pwd)/examples/PACKING.md

# The programs, each in its file. Shares are 4 here, with one processor each.
mkdir "$t/bin" "$t/programs"
ln -s "$bzna" "$t/bin/bzna"
awk -v to="$t/programs/" '/^```./ { file = to $2; next } /^```$/ { if (file) close(file); file = ""; next } file { print > file }' "$page"
for file in "$t"/programs/*; do
    sed -e 's/64/4/g; s/0-63/0-3/; s/seq 0 63/seq 0 3/' -e 's/num_cpus=16/num_cpus=0.5/' "$file" >"$file.new" &&
        mv "$file.new" "$file"
done
same "the page has its programs" "$(cd "$t/programs" && echo *)" \
    "merge.sh mpi.sh pack-all.sh pack-share.sh pack.sbatch pack_ray.py parallel.sh slurm.sh"

"$build/draw_pictures" "$t/train" 24 >/dev/null || exit 1
(cd "$t" && "$bzna" pack train -o whole.bzna --codec copy >/dev/null 2>&1) || { fail "one machine packs the pictures"; finish; exit 1; }

# place: a new folder with the programs and the pictures, as the working folder; its name is in $place
number=0
place() { number=$((number + 1)); place=$t/place$number; mkdir "$place" && cp "$t"/programs/* "$place/" && ln -s "$t/train" "$place/train"; }
runs() { run env PATH="$t/bin:$PATH" sh -c "cd '$place' && $1"; }
is_whole() { if cmp -s "$place/train.bzna" "$t/whole.bzna"; then pass; else fail "$1: its archive is not the one that one machine packs" "$(tail -n 5 "$t/err")"; fi; }
only_the_merge_is_done() {
    if runs "$2" && [ "$status" -eq 0 ]; then pass; else fail "$1: started again" "exit status $status" "$(tail -n 5 "$t/err")"; fi
    is_whole "$1, started again"
}

# A bzna that is killed in each share, the first time.
mkdir "$t/killed"
cat >"$t/killed/bzna" <<SH
#!/bin/sh
case "\$*" in pack*) share=\$(echo "\$*" | sed 's/.*--shard \([0-9]*\).*/\1/')
    if [ ! -e "was_killed.\$share" ]; then
        : >"was_killed.\$share"
        "$bzna" "\$@" & pid=\$!
        kill -KILL \$pid; wait \$pid; exit 137
    fi ;;
esac
exec "$bzna" "\$@"
SH
chmod +x "$t/killed/bzna"

place
runs "sh pack-all.sh"
same "the shell packs all shares" "$status" 0
is_whole "the shell"
only_the_merge_is_done "the shell" "sh pack-all.sh"

place
run env PATH="$t/killed:$PATH" sh -c "cd '$place' && sh pack-share.sh 2 4; sh merge.sh 4"
same "the merge refuses shares that are not all there" "$status" 1
says "$t/err" "of 4 shares are complete" "it says how many are"
run env PATH="$t/killed:$PATH" sh -c "cd '$place' && sh pack-all.sh"
same "shares that are killed go on" "$status" 0
is_whole "shares that were killed"

place
cat >"$t/bin/sbatch" <<'SH'
#!/bin/sh
# plays Slurm: an array is run at once, a job with a dependency after it
case "$1" in
    --parsable) for SLURM_ARRAY_TASK_ID in 3 1 0 2; do export SLURM_ARRAY_TASK_ID; SLURM_ARRAY_TASK_COUNT=4 sh "$2" >&2 || exit 1; done; echo "17;cluster" ;;
    --dependency=afterok:17) eval "$3" ;;
    *) exit 1 ;;
esac
SH
chmod +x "$t/bin/sbatch"
runs "sh slurm.sh"
same "the jobs of Slurm end" "$status" 0
is_whole "Slurm"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
if ! command -v mpirun >/dev/null 2>&1; then skip "packing by MPI" "there is no mpirun [openmpi-bin]"
elif ! mpirun -n 1 true </dev/null >/dev/null 2>&1; then skip "packing by MPI" "mpirun starts no program here, as without a network"
else
    place
    runs "mpirun --oversubscribe -n 4 sh mpi.sh && sh merge.sh 4"
    same "processes of MPI end" "$status" 0
    is_whole "MPI"
fi
place
runs "env -u OMPI_COMM_WORLD_RANK -u PMI_RANK -u SLURM_PROCID sh mpi.sh"
if [ "$status" -ne 0 ] && grep -q "this is for mpirun" "$t/err"; then pass; else fail "without mpirun, mpi.sh says so" "$(cat "$t/err")"; fi

if command -v parallel >/dev/null 2>&1 && parallel --version 2>/dev/null | grep -q "^GNU parallel"; then
    place
    run env PATH="$t/killed:$PATH" sh -c "cd '$place' && sh parallel.sh"
    same "GNU parallel starts again what fails" "$status" 0
    is_whole "GNU parallel"
else skip "packing by GNU parallel" "it is not installed [parallel]"; fi

ray=
for one in "$RAY_PYTHON" "$PYTHON" python3; do if [ -n "$one" ] && "$one" -c 'import ray' 2>/dev/null; then ray=$one; break; fi; done
if [ -n "$ray" ]; then
    place
    run env PATH="$t/killed:$PATH" RAY_DEDUP_LOGS=0 sh -c "cd '$place' && '$ray' pack_ray.py"
    same "Ray starts again what fails" "$status" 0
    is_whole "Ray"
else skip "packing by Ray" "no python here has ray, which Debian does not have"; fi

# A share with a damaged picture is complete all the same.
mkdir "$t/damaged" && cp -r "$t/train/." "$t/damaged/"
first=$(find "$t/damaged" -type f | sort | head -n 1)
head -c 100 "$first" >"$first.part" && mv "$first.part" "$first"
place
rm "$place/train" && ln -s "$t/damaged" "$place/train"
runs "sh pack-share.sh 0 4"
same "a damaged picture is told by the exit status" "$status" 1
says "$t/err" "$(basename "$first")" "and by its name"
runs "sh pack-share.sh 0 4"
same "the next start finds the share complete" "$status" 0

finish
