"""The scripts of `attacks` that use up what there is, or stay when they should go: text only."""

from __future__ import annotations

LIMIT_SCRIPTS: tuple[tuple[str, ...], ...] = (
    # --- limits
    ("limit", "a fork bomb", """
for number in range(limits["processes"] + 200 if limits["processes"] < 1000 else 250):
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
hold_on()
opened("all started")
""", "patient"),
    ("limit", "a thread bomb", """
threads = [threading.Thread(target=time.sleep, args=(60,), daemon=True) for _ in range(250)]
for thread in threads:
    thread.start()
hold_on()
opened("all started")
sys.stdout.flush()
os._exit(0)
""", "patient"),
    ("limit", "memory of one process", 'bytearray(1 << 30)\nopened("a GiB")'),
    ("limit", "memory of many processes", """
for number in range(4):
    if os.fork() == 0:
        hoard = bytearray(b"x") * (150 << 20)
        time.sleep(60)
hold_on()
if os.waitpid(-1, os.WNOHANG) == (0, 0):
    opened("600 MiB")
""", "patient"),
    ("limit", "a large file", """
with open(scratch + "/large", "wb", 0) as file:
    for number in range(32):
        file.write(bytes(1 << 20))
opened("32 MiB")
"""),
    ("limit", "a sparse file", """
with open(scratch + "/sparse", "wb") as file:
    os.truncate(file.fileno(), 1 << 33)
opened("8 GiB")
"""),
    ("limit", "the disk", """
for number in range(20):
    with open(f"{scratch}/{number}", "wb", 0) as file:
        file.write(bytes(8 << 20))
    time.sleep(0.05)
hold_on()
opened("160 MiB")
""", "patient"),
    ("limit", "reserved space", """
with open(scratch + "/reserved", "wb") as file:
    check(lambda: libc.fallocate(file.fileno(), 0, ctypes.c_long(0), ctypes.c_long(8 << 20)) == 0)
"""),
    ("limit", "many files", """
for number in range(4000):
    open(f"{scratch}/{number}", "x").close()
hold_on()
opened("4,000 files")
""", "patient"),
    ("limit", "temporary files", "fill(temporary)", "patient"),
    ("limit", "shared memory files", 'fill("/dev/shm")', "patient"),
    ("limit", "descriptors", """
held = [open("/dev/null") for _ in range(1000)]
opened("1,000 open")
"""),
    ("limit", "output", """
for number in range(32):
    os.write(1, b"x" * (1 << 19) + b"\\n")
    time.sleep(0.01)
opened("16 MiB")
"""),
    ("limit", "time", "hold_on(2.6)\nopened('slept on')"),
    ("limit", "processor time", """
end = time.monotonic() + (2.6 if limits["processes"] > 1000 else 20)
while time.monotonic() < end:
    pass
opened("worked on")
"""),
    # --- leftovers
    ("leftover", "a daemon", """
main = os.getpid()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(3):
            os.close(number)
        outlive(main)
    os._exit(0)
""", "settles"),
    ("leftover", "a daemon that ignores signals", """
main = os.getpid()
if os.fork() == 0:
    os.setsid()
    for number in range(1, 32):
        try:
            signal.signal(number, signal.SIG_IGN)
        except OSError:
            pass
    outlive(main)
""", "settles"),
    ("leftover", "many daemons", """
main = os.getpid()
for number in range(10):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            outlive(main)
        os._exit(0)
""", "settles"),
)  # fmt: skip
