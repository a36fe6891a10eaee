#!/usr/bin/env python3
"""scripts/gpu_budget.py finds what it must: kernels made to break its rules, and images that are damaged.

Usage: gpu_budget_test.py NVCC IMAGES
"""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
KERNELS = r"""
extern "C" __global__ void __launch_bounds__(1024) gemv_spills(const float* in, float* out) {
  float v[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) v[i] = in[threadIdx.x + i * 7];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; ++i)
#pragma unroll
    for (int k = 0; k < 64; ++k) v[i] += v[k] * v[(i + k) % 64];
#pragma unroll
  for (int i = 0; i < 64; ++i) out[threadIdx.x + i * 9] = v[i];
}
extern "C" __global__ void conv_waits_sometimes(const float* in, float* out, int known) {
  float weight;
  if (!known) asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("ld.global.L1::no_allocate.f32 %0, [%1];" : "=f"(weight) : "l"(in) : "memory");
  const float x = in[1];
  asm volatile("griddepcontrol.wait;" ::: "memory");
  out[0] = weight * x;
}
extern "C" __global__ void conv_waits(const float* in, float* out, int known) {
  float weight;
  if (!known) asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("ld.global.L1::no_allocate.f32 %0, [%1];" : "=f"(weight) : "l"(in) : "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  out[0] = weight * in[1];
}
extern "C" __global__ void gemv_divides(const int* in, int* out, int n) {
  int sum = 0;
#pragma unroll 1
  for (int i = 0; i < n; ++i) sum += in[i] / (sum | 1);
  out[0] = sum;
}
"""


def run(images, *more):
    done = subprocess.run([sys.executable, ROOT / "scripts" / "gpu_budget.py", images, *more], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def expect(got, code, *texts):
    if got[0] != code or any(text not in got[1] for text in texts):
        sys.exit(f"expected exit code {code} and {texts}, got {got[0]}:\n{got[1][-2000:]}")


def main():
    nvcc, images = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        expect(run(folder), 77, "built without nvcc")

        # A budget that one kernel exceeds in each way, and a kernel more, and one less.
        file = folder / "budget.json"
        expect(run(images, "--update", "--budget", file), 0, " 0 broken")
        budget = json.loads(file.read_text())
        kernels = budget["kernels"]
        kernels["gemv_f16"]["sm_90"] = [30, 0, 0, 100, 128, 16]
        kernels["gemv_f16"]["ptx"] = [8, 0, 4, 0, 0]
        kernels["gone"] = kernels.pop("gemv_f32")
        file.write_text(json.dumps(budget))
        expect(run(images, "--budget", file), 1, "gemv_f16 sm_90: registers ", ", expected 30\n", "gemv_f16 sm_90: shared 344, expected 0",
               "gemv_f16 sm_90: instructions ", "gemv_f16 sm_90: blocks ", "gemv_f16 ptx: narrow loads ",
               "gemv_f16 ptx: mma 0, expected 4", "gemv_f32 sm_80: no budget", "gone: in the budget, but not compiled")
        budget["compiler"] = "another"
        file.write_text(json.dumps(budget))
        expect(run(images, "--budget", file), 0, "made with another")

        # Kernels that spill, divide, and do not wait for the launch before them.
        (folder / "bad.cu").write_text(KERNELS)
        subprocess.run([nvcc, "-fatbin", "--compress-mode=size", "-gencode", "arch=compute_90,code=[sm_90,compute_90]", "-w",
                        "-maxrregcount", "32", "-o", folder / "bad.fatbin", folder / "bad.cu"], check=True)
        expect(run(folder, "--budget", file), 1, "gemv_spills sm_90: stack or spills", "gemv_divides ptx: integer divisions in loops 1",
               "gemv_divides ptx: uses memory before griddepcontrol.wait",
               "conv_waits_sometimes ptx: uses memory before griddepcontrol.wait")
        if "conv_waits ptx: uses" in run(folder, "--budget", file)[1]:
            sys.exit("expected conv_waits to wait")

        # Cut and changed images end in one line.
        whole = (folder / "bad.fatbin").read_bytes()
        for at in (0, 15, 60, 100, len(whole) // 2, len(whole) - 1):
            (folder / "bad.fatbin").write_bytes(whole[:at])
            expect(run(folder, "--budget", file), 2, "gpu budget: ")
        for at in range(0, 400, 37):
            (folder / "bad.fatbin").write_bytes(whole[:at] + bytes([whole[at] ^ 0x5A]) + whole[at + 1:])
            code, text = run(folder, "--budget", file)
            if code not in (0, 1, 2) or "Traceback" in text:
                sys.exit(f"byte {at} changed: exit code {code}:\n{text[-2000:]}")


if __name__ == "__main__":
    main()
