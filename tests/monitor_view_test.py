#!/usr/bin/env python3
"""`sparkpilot monitor` in a real terminal: what it draws, its keys, a new size, and that the terminal is as it was behind it.

    monitor_view_test.py BUILD/sparkpilot BUILD/libfake_nvml.so

The terminal is tmux's. Exit code 77: tmux is not installed.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

MACHINES = pathlib.Path(__file__).resolve().parent / "machines"
PROGRAM, FAKE_NVML = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
PATIENCE = 60  # seconds, sufficient on a busy machine


class Terminal:
    """A window in which the program was started by a shell that says how it ended."""

    def __init__(self, words="", width=80, height=24, **environment):
        self.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self.folder.name)
        self.server = ["tmux", "-S", str(folder / "socket"), "-f", "/dev/null"]
        (folder / "libnvidia-ml.so.1").symlink_to(FAKE_NVML)
        settings = {"LC_ALL": "C.UTF-8", "TERM": "tmux-256color", "NO_COLOR": "", **environment}
        settings = " ".join(f"{name}='{value}'" for name, value in settings.items())
        script = folder / "run.sh"
        script.write_text(f"""cd {folder}
echo before the view
stty -a >stty_before
set -m
(echo $BASHPID >pid; exec env {settings} '{PROGRAM}' monitor {words}) 2>error
code=$?
if [ $code = 148 ]; then
  echo "stopped"
  read -r
  fg >/dev/null
  code=$?
fi
echo "ended with $code"
stty -a >stty_after
touch ended
cat
""")
        self.tmux("new-session", "-d", "-x", str(width), "-y", str(height), f"bash {script}")
        self.path = folder

    def tmux(self, *words):
        return subprocess.run([*self.server, *words], capture_output=True, text=True, check=True).stdout

    def close(self):
        subprocess.run([*self.server, "kill-server"], capture_output=True, check=False)
        self.folder.cleanup()

    def screen(self, *words):
        return self.tmux("capture-pane", "-p", *words)

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def wait(self, wanted, *words):
        """The screen as soon as it holds the pattern."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            screen = self.screen(*words)
            if re.search(wanted, screen):
                return screen
            time.sleep(0.05)
        raise AssertionError(f"never seen: {wanted}\n{self.screen()}\n{(self.path / 'error').read_text()}")

    def wait_for_file(self, name):
        end = time.monotonic() + PATIENCE
        while not (self.path / name).exists() and time.monotonic() < end:
            time.sleep(0.05)
        return (self.path / name).read_text()

    def pid(self):
        return int(self.wait_for_file("pid"))


def from_machine(name):
    return f"--from '{MACHINES / name}.json'"


@unittest.skipUnless(shutil.which("tmux"), "tmux is not installed")
class InTerminal(unittest.TestCase):
    def start(self, *words, **options):
        terminal = Terminal(*words, **options)
        self.addCleanup(terminal.close)
        return terminal

    def ends_in_order(self, terminal, code=0):
        terminal.wait(f"ended with {code}")
        terminal.wait_for_file("ended")
        self.assertIn("before the view", terminal.screen(), "what stood there is there again")
        self.assertNotIn("q quit", terminal.screen())
        self.assertEqual(*((terminal.path / name).read_text() for name in ("stty_before", "stty_after")))
        self.assertEqual(terminal.tmux("display", "-p", "#{cursor_flag}").strip(), "1", "the cursor is hidden")

    def test_it_shows_every_section_at_80x24_and_120x40(self):
        for width, height in ((80, 24), (120, 40)):
            for words, expected in ((from_machine("spark_founders_edition"), ("GPU 0 NVIDIA GB10", "pool", "GPU processes", "X925")),
                                    (from_machine("pc_two_gpus"), ("GPU 0 NVIDIA", "GPU 1 NVIDIA", "mem")),
                                    ("", ("CPU", "use"))):
                with self.subTest(machine=words, width=width):
                    terminal = self.start(words, width=width, height=height)
                    screen = terminal.wait("q quit")
                    for part in (*expected, "Memory", "Disks", "etwork", "Processes", "command"):
                        self.assertIn(part, screen)
                    self.assertIn("sparkpilot", screen.splitlines()[0])
                    self.assertIn("q quit", screen.splitlines()[height - 1])
                    self.assertEqual([line for line in screen.splitlines() if len(line) > width], [])

    def test_gpus_of_the_driver_beside_this_machine(self):
        terminal = self.start(width=120, height=40, LD_LIBRARY_PATH=".")
        screen = terminal.wait("GPU 1 NVIDIA GB10")
        for part in ("GPU 0 NVIDIA GB10", "41 C", "13.5 W", "2411 MHz", "idle"):
            self.assertIn(part, screen)
        terminal.wait(r"use  \S+ +\d+(\.\d)? %.*\n(.*\n)*.*Processes \d+")  # waits for the rates of the second reading

    def test_keys(self):
        terminal = self.start("--interval 250ms")
        terminal.wait("sort: gpu")
        terminal.keys("s")
        terminal.wait("sort: cpu")
        terminal.keys("m")
        terminal.wait("sort: memory")
        terminal.keys("+")
        terminal.wait("every 0.5 s")
        terminal.keys("-", "-")
        terminal.wait("every 0.1 s")
        terminal.keys("h")
        terminal.wait("sort by the next column")
        terminal.keys("Escape")
        terminal.wait(r"Processes \d+")
        terminal.keys("Space")
        clock = terminal.wait("paused").splitlines()[0]
        for _ in range(15):  # each key draws the page anew, with whatever was read before it
            terminal.keys("h")
            terminal.wait("sort by the next column")
            terminal.keys("h")
            screen = terminal.wait(r"Processes \d+")
            self.assertEqual(screen.splitlines()[0], clock, "it moves while it is paused")
        terminal.keys("Space")
        terminal.wait("space pause")
        terminal.keys("x", "F5", "Up")  # keys without a meaning
        terminal.keys("q")
        self.ends_in_order(terminal)

    def test_a_new_size(self):
        terminal = self.start(from_machine("pc_two_gpus"), width=120, height=40)
        terminal.wait("q quit")
        for width, height in ((80, 24), (60, 15), (200, 50)):
            terminal.tmux("resize-window", "-x", str(width), "-y", str(height))
            screen = terminal.wait(r"\A *sparkpilot(.*\n){%d} q quit[^\n]*\n\Z" % (height - 1))
            self.assertEqual([line for line in screen.splitlines() if len(line) > width], [])
        terminal.tmux("resize-window", "-x", "30", "-y", "8")
        terminal.wait("30x8 is too small")
        terminal.tmux("resize-window", "-x", "80", "-y", "24")
        terminal.wait("q quit")

    def test_the_terminal_is_as_it_was(self):
        for name, end in (("Ctrl-C", lambda terminal: terminal.keys("C-c")),
                          ("SIGTERM", lambda terminal: os.kill(terminal.pid(), signal.SIGTERM)),
                          ("SIGINT", lambda terminal: os.kill(terminal.pid(), signal.SIGINT))):
            with self.subTest(end=name):
                terminal = self.start()
                terminal.wait("q quit")
                end(terminal)
                self.ends_in_order(terminal)

    def test_it_ends_with_its_terminal(self):
        terminal = self.start()
        terminal.wait("q quit")
        pid = terminal.pid()
        terminal.tmux("kill-server")
        end = time.monotonic() + PATIENCE
        while pathlib.Path(f"/proc/{pid}/stat").exists() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertFalse(pathlib.Path(f"/proc/{pid}/stat").exists())

    def test_it_stops_and_goes_on(self):
        terminal = self.start()
        terminal.wait("q quit")
        terminal.keys("C-z")
        self.assertIn("before the view", terminal.wait("stopped"))
        terminal.keys("Enter")
        terminal.wait("q quit")
        terminal.keys("q")
        self.ends_in_order(terminal)

    def test_plain_terminals(self):
        screen = self.start(LC_ALL="C").wait("q quit")
        self.assertTrue(screen.isascii(), screen)
        self.assertIn("..", screen)
        self.assertFalse(self.start().wait("q quit").isascii())
        colours = r"\x1b\[[0-9;]*3[0-8]"
        self.assertRegex(self.start().wait("quit", "-e"), colours)
        self.assertNotRegex(self.start(NO_COLOR="1").wait("quit", "-e"), colours)
        for term in ("vt100", "linux", "xterm"):
            self.start(TERM=term).wait("q quit")

    def test_terminals_that_cannot_be_drawn_on(self):
        for term, why in (("dumb", "cannot draw on a terminal \"dumb\""), ("none-such", "knows no terminal \"none-such\""),
                          ("", "cannot draw on a terminal \"\"")):
            with self.subTest(term=term):
                terminal = self.start(TERM=term)
                terminal.wait("ended with 2")
                message = (terminal.path / "error").read_text()
                self.assertIn(why, message)
                self.assertIn("--once prints one reading", message)


if __name__ == "__main__":
    if not shutil.which("tmux"):
        print("tmux is not installed")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
