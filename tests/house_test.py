#!/usr/bin/env python3
"""The house's own rules that no compiler checks: sizes of files, pages that lead somewhere, scripts that count right."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = sorted(path for folder in ("src", "include", "tests", "examples", "bench", "peers") for path in (ROOT / folder).rglob("*")
                 if path.suffix in (".h", ".cc", ".cu", ".cuh", ".py"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

JUNIT = """<testsuite>
  <testcase name="a" status="run"/><testcase name="b" status="run"/>
  <testcase name="c" status="fail"><failure message="Timeout"/>
    <system-out>begins
x_test.cc:7: Failure
Expected: 1 &lt; 2</system-out></testcase>
  <testcase name="d" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>
  <testcase name="e" status="notrun"><skipped message="Unable to find executable"/></testcase>
  <testcase name="f" status="disabled"/>
</testsuite>"""


class Sources(unittest.TestCase):
    def test_files_are_short(self):
        lengths = {path: len(path.read_text().splitlines()) for path in SOURCES}
        self.assertGreater(len(lengths), 20)
        self.assertEqual([str(path) for path, lines in lengths.items() if lines > 1000], [])
        long = [path for path, lines in lengths.items() if lines > 400]
        self.assertLessEqual(len(long), len(lengths) // 10, [str(path) for path in long])

    def test_nothing_is_left_for_later(self):
        mark = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")
        self.assertEqual([f"{path}:{i}" for path in SOURCES for i, line in enumerate(path.read_text().splitlines(), 1)
                          if mark.search(line)], [])

    def test_every_op_file_is_listed_once(self):
        listed = re.findall(r"^SPARKPILOT_OPS\((\w+)\)", (ROOT / "src/ops/list.inc").read_text(), re.MULTILINE)
        self.assertEqual(len(listed), len(set(listed)), "listed twice")
        defined = [found for path in (ROOT / "src/ops").rglob("*.cc")
                   for found in re.findall(r"^namespace sparkpilot::(\w+)_ops \{", path.read_text(), re.MULTILINE)]
        self.assertEqual(sorted(listed), sorted(defined))


    def test_no_file_is_large(self):
        if not shutil.which("git"):
            self.skipTest("there is no git")
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
        if listed.returncode:
            self.skipTest("no repository of git")
        files = [ROOT / name for name in listed.stdout.split("\0") if name]
        self.assertGreater(len(files), 1000)
        self.assertEqual([str(file) for file in files if file.is_file() and file.stat().st_size >= 1_000_000], [])


class Pages(unittest.TestCase):
    def test_the_changelog_has_the_version(self):
        version = re.search(r"^project\(sparkpilot VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE).group(1)
        self.assertIn(f"## [{version}]", (ROOT / "CHANGELOG.md").read_text())

    def test_links_lead_somewhere(self):
        for page in PAGES:
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
                if "://" not in target:
                    self.assertTrue((page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}")

    def test_pages_name_make_targets_that_exist(self):
        targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        for page in PAGES:
            for target in re.findall(r"(?:^|`)make\s+([a-z0-9-]+)", page.read_text(), re.MULTILINE):
                self.assertIn(target, targets, page.relative_to(ROOT))


class Scripts(unittest.TestCase):
    def run_script(self, *words):
        return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)

    def test_count_tests(self):
        count = ROOT / "scripts/count_tests.py"
        with tempfile.TemporaryDirectory() as folder:
            mixed, good = pathlib.Path(folder) / "mixed.xml", pathlib.Path(folder) / "good.xml"
            mixed.write_text(JUNIT)
            good.write_text('<testsuite><testcase name="a" status="run"/></testsuite>')
            answer = self.run_script(sys.executable, count, mixed, good)
            self.assertEqual(answer.returncode, 1)
            self.assertEqual(answer.stdout, """\
failed: c (Timeout)
  x_test.cc:7: Failure
  Expected: 1 < 2
failed: e (Unable to find executable)
3 passed, 2 failed, 2 skipped
""")
            answer = self.run_script(sys.executable, count, good)
            self.assertEqual((answer.returncode, answer.stdout), (0, "1 passed, 0 failed, 0 skipped\n"))
            self.assertEqual(self.run_script(sys.executable, count, good, f"{folder}/none.xml").returncode, 1)
            good.write_text("<testsuite></testsuite>")
            self.assertEqual(self.run_script(sys.executable, count, good).returncode, 1)

    def test_shell_scripts_parse_and_stop_on_errors(self):
        for script in [*(ROOT / "scripts").glob("*.sh"), ROOT / ".ci/run"]:
            self.assertEqual(self.run_script("bash", "-n", script).returncode, 0, script)
            self.assertIn("set -euo pipefail", script.read_text(), script)

    def test_install_deps_refuses_what_it_does_not_know(self):
        script = ROOT / "scripts/install_deps.sh"
        self.assertEqual(self.run_script(script, "--check", "attic").returncode, 2)
        self.assertEqual(self.run_script(script, "--sudo").returncode, 2)
        self.assertEqual(self.run_script(script, "--help").returncode, 0)


if __name__ == "__main__":
    unittest.main()
