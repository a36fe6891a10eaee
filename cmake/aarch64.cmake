# Cross build for 64-bit Arm with Debian's cross compiler and the libraries that scripts/arm64.sh unpacks.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(sysroot ${CMAKE_CURRENT_LIST_DIR}/../build-aarch64/sysroot)
get_filename_component(sysroot ${sysroot} ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH ${sysroot})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# Debian 12's packages still put some libraries under /lib.
set(libraries ${sysroot}/usr/lib/aarch64-linux-gnu:${sysroot}/lib/aarch64-linux-gnu)
string(REPLACE ":" " -L" search ${libraries})  # linker scripts name libraries without their folder
string(APPEND CMAKE_EXE_LINKER_FLAGS_INIT " -L${search} -Wl,-rpath-link,${libraries}")
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=${libraries})
