#!/usr/bin/env python3
"""power.py - what is left of bzna's files when the program is killed or the machine loses power, at any moment

    tests/tool/power.py BZNA DRAWN FOLDER LIBRARY [STATES]

Commands that write run below FOLDER with tests/fake/logged_calls.c preloaded (LIBRARY). From the log of their calls,
folders are made as they may be found afterwards:

- killed: all calls up to one, the last write perhaps in part
- power lost: of the writes behind a file's last fsync, each page may be there or not, and of new names, renames and
  removals behind the folder's last fsync, some may be

In each, a file with its final name is whole (or still what it was), a file that is not finished is not taken for an
archive, `bzna index` saves all samples of it whose bytes are there, and the command ends, given again, with the same
bytes as an undisturbed one. DRAWN: what draw_pictures made. STATES: how many are tried of each command, 0: all of the
killed ones and ten times as many of the others. What fails is printed with its seed."""
import json
import os
import random
import shutil
import subprocess
import sys

bzna, drawn, top, library = (os.path.abspath(path) for path in sys.argv[1:5])
wanted = int(sys.argv[5]) if len(sys.argv) > 5 else 60
work = os.path.join(top, "work")                            # the log has these names
PAGE = 4096
FIRST = 40                                                  # where an archive's samples begin


def run(*arguments, log=None):
    environment = dict(os.environ)
    if log:
        environment.update(LD_PRELOAD=library, LOG_ROOT=work, LOG_CALLS=log)
    done = subprocess.run([bzna, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=100)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def files():
    return {name: read(os.path.join(work, name)) for name in sorted(os.listdir(work))}


def put(state):
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    for name, data in state.items():
        with open(os.path.join(work, name), "wb") as file:
            file.write(data)


# ---- the log ----

def parse(path):
    log, at, calls = read(path), 0, []
    while at < len(log):
        end = log.index(b"\n", at)
        words = log[at:end].decode().split(" ")
        at, size = end + 1, 0
        if words[0] in "WS":
            size = int(words[-1])
        calls.append((words[0], words[1:], log[at:at + size]))
        at += size
    return calls


def write(data, at, new):
    if len(data) < at:
        data = data + bytes(at - len(data))
    return data[:at] + new + data[at + len(new):]


class Disk:
    """Files by number, and names; what is safe, and what is not yet."""

    def __init__(self, state, numbers):
        self.safe = {numbers[name]: data for name, data in state.items()}
        self.waiting = {number: [] for number in self.safe}
        self.names = {name: numbers[name] for name in state}        # as the program sees them
        self.safe_names = dict(self.names)
        self.new_names = []

    def rename(self, changes):
        self.new_names.append(changes)
        self.change(self.names, changes)

    @staticmethod
    def change(names, changes):
        for name, number in changes:
            names.pop(name, None)
            if number is not None:
                names[name] = number

    def call(self, kind, words, data):
        name = os.path.basename
        if kind == "O":
            number = int(words[0])
            if words[1] == "1":
                self.safe[number], self.waiting[number] = b"", []
                self.rename([(name(words[3]), number)])
            elif words[2] == "1":
                self.waiting[number].append(("T", 0))
        elif kind == "W":
            self.waiting[int(words[0])].append(("W", int(words[1]), data))
        elif kind == "T":
            self.waiting[int(words[0])].append(("T", int(words[1])))
        elif kind == "S":
            self.safe[int(words[0])], self.waiting[int(words[0])] = data, []
        elif kind == "R":
            self.rename([(name(words[0]), None), (name(words[1]), self.names[name(words[0])])])
        elif kind == "U":
            self.rename([(name(words[0]), None)])
        elif kind == "D":
            self.safe_names, self.new_names = dict(self.names), []

    @staticmethod
    def apply(data, waiting):
        for one in waiting:
            if one[0] == "T":
                data = data[:one[1]] + bytes(max(0, one[1] - len(data)))
            else:
                data = write(data, one[1], one[2])
        return data

    def killed(self):
        return {name: self.apply(self.safe[number], self.waiting[number]) for name, number in self.names.items()}

    def without_power(self, dice):
        """Some of what waits is there, in pages."""
        kept, names = {}, dict(self.safe_names)
        for number, waiting in self.waiting.items():
            chance, some = dice.choice([0, 0.3, 0.8, 1]), []
            for one in waiting:
                if one[0] == "T":
                    some += [one] if dice.random() < chance else []
                    continue
                at, data = one[1], one[2]
                while data:
                    size = PAGE - at % PAGE
                    if dice.random() < chance:
                        some.append(("W", at, data[:size]))
                    at, data = at + size, data[size:]
            kept[number] = self.apply(self.safe[number], some)
        chance = dice.choice([0, 0.5, 1])
        for changes in self.new_names:
            if dice.random() < chance:
                self.change(names, changes)
        return {name: kept[number] for name, number in names.items()}


def half_written(disk, words, data):
    """As killed, with the first half of another write."""
    state, number = disk.killed(), int(words[0])
    for name, other in disk.names.items():
        if other == number:
            state[name] = write(state[name], int(words[1]), data[:len(data) // 2])
    return state


# ---- what must hold ----

class Command:
    """arguments: of bzna. before: files that are there. out: what it writes. again: the arguments that go on after an
    interruption, in which it must succeed. is_streamed: the C library writes it. is_lasting: at the command's end, its
    name is on the disk, too."""

    def __init__(self, name, arguments, out, again, before=None, is_archive=True, is_streamed=False, is_lasting=True):
        self.name, self.arguments, self.out, self.again, self.before = name, arguments, out, again, before or {}
        self.is_archive, self.is_streamed, self.is_lasting = is_archive, is_streamed, is_lasting


failed = 0
passed = 0


places_in = {}                                              # by an archive's bytes


def samples_of(path):
    """Bytes and place of each sample."""
    data = read(path)
    if data not in places_in:
        status, listed, error = run("list", "--json", path)
        if status:
            sys.exit("%s: %s" % (path, error))
        places_in[data] = [(one["offset"], one["size"]) for one in json.loads(listed)]
    return [data[at:at + size] for at, size in places_in[data]], places_in[data]


def check_rescue(command, state, clean):
    """bzna index saves the samples of a file that is not finished. Returns what is wrong."""
    data = state[command.out + ".partial"]
    places = clean["places"]
    there = 0
    while there < len(places) and data[places[there][0]:sum(places[there])] == clean["samples"][there]:
        there += 1
    if data[:24] != clean["bytes"][:24]:
        there = 0                                           # not even its beginning is there
    rescued = os.path.join(work, "rescued.bzna")
    status, _, error = run("index", os.path.join(work, command.out + ".partial"), "-o", rescued)
    if status < 0 or status > 2 or (status and "bzna: " not in error):
        return "bzna index: exit status %d: %s" % (status, error)
    if not os.path.exists(rescued):
        return "bzna index saves none of %d samples: %s" % (there, error) if there else None
    samples, _ = samples_of(rescued)
    os.unlink(rescued)
    if samples[:there] != clean["samples"][:there]:
        return "bzna index saves %d of %d samples, or others: %s" % (len(samples), there, error)
    return None


def check_partial(command, state, clean):
    """A file that is not finished: bzna info and bzna index look at that file alone. Returns what is wrong."""
    data = state[command.out + ".partial"]
    if data in clean["seen"]:
        return None
    clean["seen"].add(data)
    status, _, error = run("info", os.path.join(work, command.out + ".partial"))
    if status == 0 and data != clean["bytes"]:
        return "a file that is not finished is taken for an archive"
    if status not in (0, 1) or (status and "bzna: " not in error):
        return "bzna info: exit status %d: %s" % (status, error)
    return check_rescue(command, state, clean)


def check_state(command, state, clean, is_over):
    put(state)
    out = os.path.join(work, command.out)
    old = [command.before[command.out]] if command.out in command.before and not is_over else []
    allowed = [clean["bytes"], *old]
    if command.out in state and state[command.out] not in allowed:
        return "%s is there and not whole (%d bytes)" % (command.out, len(state[command.out]))
    if command.out not in state and (command.is_lasting and is_over or command.out in command.before):
        return "%s is lost" % command.out
    if command.is_archive and command.out + ".partial" in state:
        wrong = check_partial(command, state, clean)
        if wrong:
            return wrong
    if is_over and command.out in command.before:
        return None                                         # again, it would append once more
    if command.out in state and state[command.out] == clean["bytes"] and command.out in command.before:
        return None
    status, _, error = run(*command.again)
    if status:
        return "given again: exit status %d: %s" % (status, error)
    if read(out) != clean["bytes"]:
        return "given again, it writes other bytes"
    return None


def written_again(command, number, clean, calls):
    """Which samples that were there are written once more: none but the last, which the log may lack."""
    data, there = command.before[command.out + ".partial"], []
    for at, size in clean["places"]:
        if data[at:at + size] != clean["bytes"][at:at + size] or at + size > len(data):
            break
        there.append(at)
    written = {int(words[1]) for kind, words, _ in calls if kind == "W" and int(words[0]) == number}
    return [at for at in there[:-1] if at in written]


def check(command):
    global passed, failed
    put(command.before)
    numbers = {name: os.stat(os.path.join(work, name)).st_ino for name in os.listdir(work)}
    log = os.path.join(top, "log")
    if os.path.exists(log):
        os.unlink(log)
    status, _, error = run(*command.arguments, log=log)
    if status:
        failed += 1
        print("FAIL %s: exit status %d: %s" % (command.name, status, error))
        return
    clean = {"bytes": read(os.path.join(work, command.out)), "seen": set()}
    if command.is_archive:
        clean["samples"], clean["places"] = samples_of(os.path.join(work, command.out))
    calls = parse(log)
    if command.out + ".partial" in command.before:
        again = written_again(command, numbers[command.out + ".partial"], clean, calls)
        if again:
            failed += 1
            print("FAIL %s writes samples again that are there, at %s" % (command.name, again))
            return
    states = []
    disk = Disk(command.before, numbers)
    for count in range(len(calls) + 1):
        is_over = count == len(calls)
        if not command.is_streamed:
            states.append(("killed after call %d" % count, disk.killed(), is_over))
            if not is_over and calls[count][0] == "W":
                states.append(("killed in call %d" % (count + 1), half_written(disk, *calls[count][1:]), is_over))
        for seed in range(20 if is_over else 10):
            dice = random.Random("%s %d %d" % (command.name, count, seed))
            states.append(("power lost after call %d, seed %d" % (count, seed), disk.without_power(dice), is_over))
        if not is_over:
            disk.call(*calls[count])
    if wanted and len(states) > wanted:
        last = [one for one in states if one[2]][:10]
        states = random.Random(len(states)).sample(states, wanted - len(last)) + last
    seen, wrong = set(), None
    for what, state, is_over in states:
        key = (is_over, tuple(sorted(state.items())))
        if key in seen:
            continue
        seen.add(key)
        wrong = check_state(command, state, clean, is_over)
        if wrong:
            break
    print("%s: %d calls, %d states" % (command.name, len(calls), len(seen)))
    if wrong:
        failed += 1
        calls_then = ["%d %s" % (number + 1, " ".join([one[0]] + one[1])) for number, one in enumerate(calls)]
        print("FAIL %s\n  %s: %s\n  the calls:\n    %s" % (command.name, what, wrong, "\n    ".join(calls_then)))
    else:
        passed += 1


def path(name):
    return os.path.join(work, name)


def interrupted_pack():
    """What a killed run leaves, in its middle."""
    disk, calls = Disk({}, {}), parse(os.path.join(top, "log"))
    for one in calls[:len(calls) * 2 // 3]:
        disk.call(*one)
    return disk.killed()


pack = ("pack", drawn, "-o", path("x.bzna"), "--codec", "jpeg", "--jobs", "2")
check(Command("pack", pack, "x.bzna", (*pack, "--resume")))
half = interrupted_pack()
put({})
copies = os.path.join(top, "copies")
os.mkdir(copies)
for name in sorted(os.listdir("tests/data/pictures")):
    if name.endswith(".jpg"):
        with open(os.path.join(copies, name), "wb") as copied:
            copied.write(read(os.path.join("tests/data/pictures", name)))
copy = ("pack", copies, "-o", path("x.bzna"), "--codec", "copy", "--check", "headers")
check(Command("pack of copies", copy, "x.bzna", (*copy, "--resume")))
put({})
run(*pack)
archive = files()
check(Command("pack --resume", (*pack, "--resume"), "x.bzna", (*pack, "--resume"), half))
old = {"x.bzna": archive["x.bzna"]}
source = os.path.join(top, "source.bzna")
put(old)
shutil.copyfile(path("x.bzna"), source)
put({})
run("merge", source, source, source, "-o", path("m.bzna"))
older = {"m.bzna": read(path("m.bzna"))}
replace = (*pack, "--overwrite")
check(Command("pack --overwrite", replace, "x.bzna", replace, {"x.bzna": older["m.bzna"]}))
merge = ("merge", source, source, "-o", path("m.bzna"))
check(Command("merge", merge, "m.bzna", (*merge, "--overwrite")))
append = ("append", path("x.bzna"), source)
check(Command("append", append, "x.bzna", append, old))
convert = ("convert", source, "-o", path("c.tar"))
check(Command("convert to a tar", convert, "c.tar", (*convert, "--overwrite"), is_archive=False, is_streamed=True))
convert = ("convert", source, "-o", path("c.rec"))
check(Command("convert to RecordIO", convert, "c.rec", (*convert, "--overwrite"), is_archive=False, is_streamed=True))
put({})
run("convert", source, "-o", path("c.tar"))
tar = {"c.tar": read(path("c.tar"))}
index = ("index", path("c.tar"))
check(Command("index", index, "c.idx", index, tar, is_archive=False, is_streamed=True))
extract = ("extract", source, "0", "-o", path("p.ppm"))
check(Command("extract", extract, "p.ppm", extract, is_archive=False, is_streamed=True,
              is_lasting=False))
print("%d passed, %d failed" % (passed, failed))
sys.exit(failed != 0)
