"""The check of the layer rule finds what it is there to find: each test plants one thing in a small tree."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(__file__).with_name("check_layers.py")
PAGE = "| folder | holds |\n|---|---|\n| `src/base/` | errors |\n| `src/device/` | the seam |\n| `src/memory/` | pools |\n"


class LayerRule(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("docs/architecture.md", PAGE)
        self.write("src/base/status.hpp", "#include <memory>\n#include <fmt/format.h>\n")
        self.write("src/device/device.hpp", '#include "base/status.hpp"\n#include "reprieve/reprieve.h"\n')
        self.write("src/memory/pool.cpp", '#include "memory/pool.hpp"\n#include "device/device.hpp"\n')

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def check(self):
        return subprocess.run([sys.executable, CHECK, self.root], capture_output=True, text=True, check=False)

    def test_a_clean_tree_passes(self):
        self.assertEqual(self.check().returncode, 0)

    def test_an_include_of_a_later_layer_is_named_with_its_line(self):
        self.write("src/device/device.cpp", '#include <vector>\n#include "memory/pool.hpp"\n')
        result = self.check()
        self.assertEqual(result.returncode, 1)
        self.assertIn("src/device/device.cpp:2:", result.stdout)
        self.assertIn("layer 'device' comes before 'memory'", result.stdout)

    def test_angle_brackets_do_not_hide_it(self):
        self.write("src/base/log.hpp", "  #  include <memory/pool.hpp>\n")
        self.assertEqual(self.check().returncode, 1)

    def test_a_way_round_by_dots_is_refused(self):
        self.write("src/base/log.cpp", '#include "../memory/pool.hpp"\n')
        self.assertEqual(self.check().returncode, 1)

    def test_a_file_that_no_layer_owns_is_refused(self):
        self.write("src/base/log.cpp", '#include "helpers/text.hpp"\n')
        self.assertEqual(self.check().returncode, 1)

    def test_a_folder_missing_from_the_list_is_an_error_of_its_own(self):
        self.write("src/offload/ledger.cpp", "")
        result = self.check()
        self.assertEqual(result.returncode, 2)
        self.assertIn("offload", result.stderr)

    def test_a_page_without_the_list_is_an_error_of_its_own(self):
        self.write("docs/architecture.md", "# Layers\n")
        self.assertEqual(self.check().returncode, 2)


if __name__ == "__main__":
    unittest.main()
