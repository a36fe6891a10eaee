#!/usr/bin/env python3
"""sparkpilot.hardware says what the program's doctor says of the same machine."""
import json
import subprocess
import unittest

from package import BUILD

from sparkpilot import hardware


class Hardware(unittest.TestCase):
    def test_it_is_what_the_doctor_says(self):
        said = subprocess.run([BUILD / "sparkpilot", "doctor", "--json"], capture_output=True, text=True, check=False)
        machine = json.loads(said.stdout)["machine"]
        here = hardware.HARDWARE
        self.assertEqual(here.hardware_class, machine["hardware_class"])
        self.assertEqual(here.backend, machine["backend"])
        self.assertEqual(hardware.is_dgx_spark(), machine["is_dgx_spark"])
        self.assertEqual(hardware.is_nvidia_available(), machine["is_nvidia_available"])
        self.assertEqual(here.system, machine["identity"]["system"])
        self.assertEqual(here.processors, machine["cpu"]["logical"])
        self.assertEqual(here.memory_total, machine["memory"]["total_bytes"])
        self.assertEqual(len(hardware.get_nvidia_gpus()), len(machine["gpus"]))
        self.assertEqual(hardware.get_recommended_precision(), machine["recommended_precision"])

    def test_the_functions_agree(self):
        best = hardware.get_best_gpu()
        self.assertEqual(best is not None, hardware.is_nvidia_available())
        self.assertEqual(hardware.get_recommended_precision(best), hardware.get_recommended_precision())
        if best is None:
            self.assertEqual(hardware.get_recommended_precision(), "fp32")
            self.assertNotEqual(hardware.HARDWARE.backend, "cuda")
        self.assertIs(hardware.HARDWARE, hardware.HARDWARE)
        self.assertEqual(hardware.HARDWARE.get_device_type(), hardware.HARDWARE.hardware_class)
        self.assertRaises(AttributeError, lambda: hardware.HARDWORE)


if __name__ == "__main__":
    unittest.main()
