#!/usr/bin/env python3
"""What `sparkpilot completion` and `sparkpilot man` make, in the shells themselves and formatted by man; and --help.

    completion_test.py PROGRAM
"""
import fcntl
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

PROGRAM = sys.argv.pop(1)


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise AssertionError(f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    if done.stderr:
        raise AssertionError(f"{words}: {done.stderr}")
    return done.stdout


class Help(unittest.TestCase):
    def on_terminal(self, columns, *words):
        """What the program prints on a terminal of that width."""
        main, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with subprocess.Popen([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=other) as child:
            os.close(other)
            text = b""
            while True:
                try:
                    part = os.read(main, 65536)
                except OSError:  # the other end was closed
                    break
                if not part:
                    break
                text += part
        os.close(main)
        self.assertEqual(child.returncode, 0)
        return text.decode().replace("\r", "")

    def test_descriptions_fit_the_terminal(self):
        for command in ("run", "compare", "dataset evaluate", "doctor", "sim run", ""):
            plain = run(PROGRAM, *command.split(), "--help")
            narrow = self.on_terminal(80, *command.split(), "--help")
            options = narrow.partition("\nExamples:")[0]
            self.assertEqual([line for line in options.split("\n")[2:] if len(line) > 80], [])
            self.assertEqual(narrow.split(), plain.split())  # every word, in its order
            self.assertEqual(narrow.partition("\nExamples:")[2], plain.partition("\nExamples:")[2])
            self.assertEqual(self.on_terminal(1000, *command.split(), "--help"), plain)
        self.assertIn("\n" + 30 * " " + "with the inputs' names (repeatable); the others\n",
                      self.on_terminal(80, "run", "--help"))


class Shells(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sparkpilot_completion_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def script(self, shell):
        if not shutil.which(shell):
            self.skipTest(f"there is no {shell}")
        file = self.folder / f"_sparkpilot.{shell}"
        if not file.exists():
            file.write_text(run(PROGRAM, "completion", shell))
        return file

    def in_bash(self, *words):
        """What bash offers for the last of the words."""
        text = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sparkpilot; printf "%s\\n" "${COMPREPLY[@]}"'
        return run("bash", "--norc", "-c", text, "bash", self.script("bash"), "sparkpilot", *words).split()

    def test_bash_completes(self):
        self.assertEqual(self.in_bash("dr"), ["drive"])
        self.assertEqual(self.in_bash("model", ""), ["info", "check", "convert", "quantize", "calibrate"])
        self.assertEqual(self.in_bash("help", "zoo", "b"), ["build"])
        self.assertEqual(self.in_bash("drive", "x", "--de"), ["--demo", "--device"])
        self.assertEqual(self.in_bash("drive", "--precision", "f"), ["fp32", "fp16", "fp8", "fp4"])
        self.assertEqual(self.in_bash("run", "--device", "="), ["auto", "cpu", "cuda"])
        self.assertEqual(self.in_bash("route", "synth", "--light", "=", "d"), ["day", "dusk"])
        self.assertEqual(self.in_bash("completion", ""), ["bash", "zsh", "fish"])
        self.assertEqual(self.in_bash("fly", "--o"), [])
        # Files are readline's: the completion says nothing of them.
        self.assertEqual(self.in_bash("drive", "--out", ""), [])
        self.assertEqual(self.in_bash("model", "info", ""), [])

    def test_bash_knows_every_option_and_command(self):
        for command in commands():
            help_text = run(PROGRAM, *command.split(), "--help")
            options = set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", help_text, re.MULTILINE))
            self.assertEqual(set(self.in_bash(*command.split(), "--")), options, command)

    def test_fish_completes(self):
        script = self.script("fish")

        def offered(line):
            said = run("fish", "--no-config", "-c", 'source $argv[1]; complete -C $argv[2]', script, line)
            return [row.split("\t")[0] for row in said.splitlines()]

        self.assertEqual(offered("sparkpilot dr"), ["drive"])
        self.assertEqual(sorted(offered("sparkpilot model ")), ["calibrate", "check", "convert", "info", "quantize"])
        self.assertEqual(sorted(offered("sparkpilot drive --overlay-width 3 --precision b")), ["bf16"])
        self.assertIn("--demo", offered("sparkpilot drive --d"))

    def test_zsh_reads_it(self):
        run("zsh", "-n", self.script("zsh"))


def commands():
    """Of the program, from its help texts."""
    all_of_them = []
    for command in names_below():
        all_of_them += [command, *(f"{command} {name}" for name in names_below(command))]
    return all_of_them


def names_below(*command):
    listed = run(PROGRAM, *command, "--help").split("Subcommands:")[1:]
    return re.findall(r"^  (\w+) ", listed[0].split("Example")[0], re.MULTILINE) if listed else []


class Pages(unittest.TestCase):
    def test_every_command_has_a_page_that_man_formats(self):
        with tempfile.TemporaryDirectory(prefix="sparkpilot_man_") as folder:
            run(PROGRAM, "man", "--out", folder)
            pages = {path.name: path for path in pathlib.Path(folder).iterdir()}
            names = ["sparkpilot", *("sparkpilot-" + command.replace(" ", "-") for command in commands())]
            self.assertEqual(sorted(pages), sorted(name + ".1" for name in names))
            self.assertEqual(run(PROGRAM, "man", "model", "info"), pages["sparkpilot-model-info.1"].read_text())
            if not shutil.which("groff"):
                self.skipTest("there is no groff")
            for name, path in pages.items():
                text = run("groff", "-man", "-ww", "-Tutf8", "-P-cbou", path)
                self.assertIn("NAME", text, name)
                self.assertIn("OPTIONS", text, name)
            text = run("groff", "-man", "-ww", "-Tutf8", "-P-cbou", pages["sparkpilot-drive.1"])
            self.assertRegex(text, r"--focal-length PX\n")
            self.assertRegex(text, r"(?m)^ +sparkpilot drive --demo$")

    def test_a_page_of_no_command_is_refused(self):
        done = subprocess.run([PROGRAM, "man", "fly"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr, 'sparkpilot man: no command is named "fly"\n')


if __name__ == "__main__":
    unittest.main()
