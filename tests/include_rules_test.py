#!/usr/bin/env python3
"""Tests of include_rules.py on small trees made for the purpose: each rule must be able to fail."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import include_rules  # noqa: E402

RULES = """\
order base < {tensor, monitor} < ir < {onnx, ops} < cli
tests ops
header fmt/ : all
header gtest/ : *_test.cc tests
header omp.h : base/parallel.*
header google/protobuf/ onnx/ : onnx
system unistd.h sys/
without ir/ sparkpilot/session.h : cli/draw
without ops/ !ops/cpu/ : ops/cpu
only "pragma omp" : base/parallel.cc
"""


class IncludeRules(unittest.TestCase):
    def problems(self, files, rules=RULES):
        """What the checker says of a tree that holds `files` (path -> text) and a header in every room."""
        with tempfile.TemporaryDirectory() as folder:
            tree = {"docs/architecture.md": f"# Page\n\n```rules\n{rules}```\n"}
            for room in ("base", "tensor", "monitor", "ir", "onnx", "ops", "cli"):
                tree[f"src/{room}/{room}.h"] = "#pragma once\n#include <vector>\n#include <stdint.h>\n"
            tree.update(files)
            for name, text in tree.items():
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return include_rules.Checker(folder).run()

    def assert_fine(self, files):
        self.assertEqual(self.problems(files), [])

    def assert_refused(self, files, *parts):
        found = self.problems(files)
        self.assertEqual(len(found), 1, found)
        for part in parts:
            self.assertIn(part, found[0])

    def test_headers_that_a_folder_does_without(self):
        self.assert_fine({"src/cli/main.cc": '#include "ir/ir.h"\n', "src/cli/draw/line.cc": '#include "tensor/tensor.h"\n'})
        self.assert_refused({"src/cli/draw/line.cc": '#include "ir/ir.h"\n'}, "src/cli/draw/line.cc:1", "ir/ir.h")

    def test_a_tree_that_obeys(self):
        self.assert_fine({
            "src/ir/graph.cc": '#include "ir/ir.h"\n#include "tensor/tensor.h"\n#include <fmt/core.h>\n',
            "src/base/file.cc": "#include <unistd.h>\n#include <sys/stat.h>\n",
            "src/base/parallel.cc": "#include <omp.h>\n#pragma omp parallel\n",
            "src/onnx/read.cc": "#include <google/protobuf/message.h>\n",
            "src/ir/graph_test.cc": "#include <gtest/gtest.h>\n#include \"ops/ops.h\"\n",
            "include/sparkpilot/session.h": '#include <string>\n#include "sparkpilot/error.h"\n',
            "include/sparkpilot/error.h": "#pragma once\n",
            "src/cli/main.cc": '#include "sparkpilot/session.h"\n',
            "tests/end_test.cc": '#include "cli/cli.h"\n#include "helper/tool.h"\n#include <gtest/gtest.h>\n',
            "tests/helper/tool.h": "#pragma once\n",
        })

    def test_a_room_may_not_include_a_later_one(self):
        self.assert_refused({"src/ir/graph.cc": '\n#include "ops/ops.h"\n'}, "src/ir/graph.cc:2:", "ir may not include ops")

    def test_rooms_in_one_brace_do_not_include_each_other(self):
        self.assert_refused({"src/onnx/a.cc": '#include "ops/ops.h"\n'}, "onnx may not include ops")
        self.assert_refused({"src/monitor/a.h": '#  include  "tensor/tensor.h"\n'}, "monitor may not include tensor")

    def test_unit_tests_may_include_only_what_is_listed_besides(self):
        self.assert_refused({"src/ir/graph_test.cc": '#include "cli/cli.h"\n'}, "ir may not include cli")

    def test_libraries_stay_in_their_rooms(self):
        self.assert_refused({"src/ir/a.cc": "#include <onnx/onnx-ml.pb.h>\n"}, "<onnx/onnx-ml.pb.h> belongs to onnx")
        self.assert_refused({"src/ops/a.cc": "#include <omp.h>\n"}, "<omp.h> belongs to base/parallel.*")
        self.assert_refused({"src/ops/a.cc": "#include <gtest/gtest.h>\n"}, "belongs to *_test.cc")
        self.assert_refused({"src/ops/a.cc": "#include <boost/any.hpp>\n"}, "no rule for <boost/any.hpp>")
        self.assert_refused({"src/base/a.cc": '#include "google/protobuf/message.h"\n'}, "belongs to onnx")

    def test_text_that_belongs_elsewhere(self):
        self.assert_refused({"src/ops/a.cc": "#pragma omp parallel for\n"}, '"pragma omp" belongs to base/parallel.cc')

    def test_what_a_folder_may_not_include_and_what_of_it_it_may(self):
        self.assert_fine({"src/ops/cpu/a.cc": '#include "ops/cpu/b.h"\n', "src/ops/cpu/b.h": ""})
        self.assert_refused({"src/ops/cpu/a.cc": '#include "ops/ops.h"\n'}, "ops/ops.h may not be included here")

    def test_public_headers_stand_alone(self):
        self.assert_refused({"include/sparkpilot/a.h": '#include "ir/ir.h"\n'}, "public header")
        self.assert_refused({"include/sparkpilot/a.h": "#include <fmt/core.h>\n"}, "public header")

    def test_examples_use_public_headers_only(self):
        self.assert_fine({"examples/a.cc": '#include "sparkpilot/error.h"\n', "include/sparkpilot/error.h": ""})
        self.assert_refused({"examples/a.cc": '#include "base/base.h"\n'}, "an example", "users do not have")

    def test_includes_that_lead_nowhere(self):
        self.assert_refused({"src/ir/a.cc": '#include "ir/gone.h"\n'}, '"ir/gone.h" does not exist')
        self.assert_refused({"src/cli/a.cc": '#include "sparkpilot/gone.h"\n'}, "does not exist")
        self.assert_refused({"src/ir/a.cc": '#include "../base/base.h"\n'}, "from the root")
        self.assert_refused({"src/ir/a.cc": "#include SOMETHING\n"}, "macro")

    def test_a_room_without_a_place(self):
        self.assert_refused({"src/attic/a.cc": "#include <vector>\n"}, "attic")

    def test_cmake_targets_obey_too(self):
        self.assert_refused({"CMakeLists.txt": "\nsparkpilot_room(tensor LINK base ir)\n"},
                            "CMakeLists.txt:2:", "tensor may not link ir")
        self.assert_refused({"CMakeLists.txt": "sparkpilot_room(attic LINK base)\n"}, "attic")

    def test_rules_that_cannot_be_read(self):
        for rules in ("", "order base < base\n", "header fmt/ all\n", "nonsense\n"):
            with self.assertRaises(include_rules.RulesError, msg=rules):
                self.problems({}, rules)

    def test_exit_codes(self):
        def run(root):
            return subprocess.run([sys.executable, str(HERE / "include_rules.py"), root], capture_output=True, check=False)
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run(folder).returncode, 2)
            root = pathlib.Path(folder)
            (root / "docs").mkdir()
            (root / "docs/architecture.md").write_text(f"```rules\n{RULES}```\n")
            (root / "src/base").mkdir(parents=True)
            (root / "src/base/a.h").write_text("#pragma once\n")
            self.assertEqual(run(folder).returncode, 0)
            (root / "src/base/b.h").write_text('#include "ops/ops.h"\n')
            self.assertEqual(run(folder).returncode, 4)


if __name__ == "__main__":
    unittest.main()
