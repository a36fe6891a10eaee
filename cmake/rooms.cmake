# Helpers that turn a folder of src/ into a target.

set(SPARKPILOT_WARNINGS -Wall -Wextra -Wpedantic $<$<BOOL:${SPARKPILOT_WERROR}>:-Werror> -Wnon-virtual-dtor -Woverloaded-virtual
    -Wno-missing-field-initializers -Wno-psabi $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local>)
# Everything can become part of a shared library. Calls within a file are inlined all the same, as nothing takes the place of
# our functions.
set(SPARKPILOT_SHAREABLE -fPIC -fno-semantic-interposition)
set(SPARKPILOT_SANITIZE_FLAGS "")
if(SPARKPILOT_SANITIZE)
  set(SPARKPILOT_SANITIZE_FLAGS -fsanitize=${SPARKPILOT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  # Its copies of the stack are aligned to 32 bytes, vectors of AVX-512 to 64 (GCC's bug 110027).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13
     AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13.3)
    list(APPEND SPARKPILOT_SANITIZE_FLAGS --param=asan-use-after-return=0)
  endif()
endif()

if(SPARKPILOT_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "SPARKPILOT_FUZZ needs clang's libFuzzer, the compiler is ${CMAKE_CXX_COMPILER_ID}")
  endif()
  set(SPARKPILOT_SANITIZE_FLAGS -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all
      -fno-omit-frame-pointer -g1)
endif()

# Rooms have short names, which may be taken in a project that this one is a part of.
set(SPARKPILOT_PREFIX "")
if(NOT PROJECT_IS_TOP_LEVEL)
  set(SPARKPILOT_PREFIX sparkpilot_)
endif()

function(sparkpilot_flags target)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_compile_options(${target} PRIVATE ${SPARKPILOT_WARNINGS} ${SPARKPILOT_SHAREABLE} ${SPARKPILOT_NUMERICS} ${SPARKPILOT_SANITIZE_FLAGS}
                         $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=524288>)  # KiB before g++ collects garbage
  target_link_options(${target} PUBLIC ${SPARKPILOT_SANITIZE_FLAGS})
  target_compile_definitions(${target} PRIVATE SPARKPILOT_VERSION="${PROJECT_VERSION}" $<$<BOOL:${SPARKPILOT_SERIAL}>:SPARKPILOT_SERIAL>)
endfunction()

# sparkpilot_precompiled(TARGET HEADER): cmake/precompiled/HEADER is compiled once, before TARGET's files. With FROM, it is
# the one of that target, whose flags are the same.
function(sparkpilot_precompiled target)
  cmake_parse_arguments(ARG "" "HEADER;FROM" "" ${ARGN})
  if(NOT SPARKPILOT_PRECOMPILED)
    return()
  endif()
  if(ARG_FROM)
    target_precompile_headers(${target} REUSE_FROM ${ARG_FROM})
  else()
    target_precompile_headers(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled/${ARG_HEADER})
  endif()
  # For ccache; and g++ 12 takes what it inlines of a precompiled std::string for accesses out of bounds.
  target_compile_options(${target} PRIVATE -fpch-preprocess -Wno-stringop-overread -Wno-stringop-overflow -Wno-array-bounds
                         -Wno-restrict)
endfunction()

# A target that owns a precompiled header for others.
function(sparkpilot_precompiled_for_others target header)
  cmake_parse_arguments(ARG "" "" "LINK;OPTIONS" ${ARGN})
  if(NOT SPARKPILOT_PRECOMPILED)
    return()
  endif()
  add_library(${target} OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled/empty.cc)
  sparkpilot_flags(${target})
  target_link_libraries(${target} PRIVATE fmt::fmt nlohmann_json::nlohmann_json $<TARGET_NAME_IF_EXISTS:OpenMP::OpenMP_CXX>
                        Threads::Threads ${ARG_LINK})
  target_compile_options(${target} PRIVATE ${ARG_OPTIONS})
  sparkpilot_precompiled(${target} HEADER ${header})
endfunction()

# Files that are not compiled together with others: those named (BUT_OPS: all that do not define ops in a namespace of their
# own), and Highway's, which include themselves. Those with options of their own are apart anyway.
function(sparkpilot_apart folder named)
  list(TRANSFORM named PREPEND ${folder}/)
  foreach(source IN LISTS ARGN)
    file(STRINGS ${source} by_highway REGEX "^#include .hwy/foreach_target\\.h")
    file(STRINGS ${source} ops REGEX "^namespace sparkpilot::[a-z0-9_]+_ops {")
    if(by_highway OR source IN_LIST named OR ("${folder}/BUT_OPS" IN_LIST named AND NOT ops AND NOT source MATCHES "_test\\.cc$"))
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()

# Several files of TARGET are compiled as one: what they include and the templates that they use are most of what a file costs.
# 16 take three quarters (tests) to nine tenths of the time of two times 8.
function(sparkpilot_together target)
  if(SPARKPILOT_TOGETHER)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${SPARKPILOT_TOGETHER})
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# At this level, not inside a function: gtest_discover_tests() needs what the module sets, and where that is out of scope
# it registers nothing and says nothing.
if(SPARKPILOT_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

# Tests run once: what they gain by -O2 is less than it costs to compile.
function(sparkpilot_test_flags target)
  sparkpilot_flags(${target})
  # At -Og g++ 14 takes members that a constructor has not reached yet for ones that it destroys.
  target_compile_options(${target} PRIVATE -Og
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>>:-Wno-maybe-uninitialized>)
  sparkpilot_precompiled(${target} FROM precompiled_test)
endfunction()

# sparkpilot_room(NAME LINK rooms and targets... SYSTEM include folders...): all of src/NAME except its tests becomes the
# static library NAME; its *_test.cc become the program NAME_test. PRECOMPILED: a header of cmake/precompiled, or the target that owns
# one. APART: files that are never compiled together with others, because they have a name that another has too or measure the
# machine; or BUT_OPS: all but the tests and those that define ops.
# GPU_CHECK: the files that gpu_check (of sim: or the library of the environment for learning) is linked from, which are apart so
# that it needs none of the libraries (Cairo, Cap'n Proto, libzip) and rooms that others of the room use. LIGHT: it asks and prints,
# and is compiled as tests are.
function(sparkpilot_room room)
  cmake_parse_arguments(ARG "LIGHT" "PRECOMPILED" "LINK;SYSTEM;APART;GPU_CHECK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${room}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz|module)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER tests EXCLUDE REGEX "/ops/cuda/|_cuda_test\\.cc$")  # cuda.cmake
  set(target ${SPARKPILOT_PREFIX}${room})
  foreach(other IN LISTS ARG_LINK)
    if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/src/${other})
      set(other ${SPARKPILOT_PREFIX}${other})
    endif()
    list(APPEND links ${other})
  endforeach()
  if(room IN_LIST SPARKPILOT_PLAIN_ROOMS)
    add_library(${target} STATIC IMPORTED GLOBAL)
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${SPARKPILOT_PLAIN}/lib${target}.a)
    target_link_libraries(${target} INTERFACE ${links})
    return()
  endif()
  add_library(${target} STATIC ${sources})
  sparkpilot_flags(${target})
  sparkpilot_apart(${PROJECT_SOURCE_DIR}/src/${room} "${ARG_APART};${ARG_GPU_CHECK}" ${sources} ${tests})
  sparkpilot_together(${target})
  if(ARG_LIGHT)
    target_compile_options(${target} PRIVATE -Og)
    set(ARG_PRECOMPILED precompiled_light)
  endif()
  target_include_directories(${target} SYSTEM PUBLIC ${ARG_SYSTEM})
  target_link_libraries(${target} PUBLIC ${links})
  # Itself and the rooms that it uses, as far as they are built here.
  set(rooms ${target})
  foreach(other IN LISTS links)
    if(TARGET ${other})
      get_property(used TARGET ${other} PROPERTY SPARKPILOT_ROOMS)
      list(APPEND rooms ${used})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES rooms)
  set_property(TARGET ${target} PROPERTY SPARKPILOT_ROOMS ${rooms})
  if(ARG_PRECOMPILED MATCHES "\\.h$")
    sparkpilot_precompiled(${target} HEADER ${ARG_PRECOMPILED})
  elseif(ARG_PRECOMPILED)
    sparkpilot_precompiled(${target} FROM ${ARG_PRECOMPILED})
  endif()
  if(tests AND SPARKPILOT_TESTS)
    sparkpilot_add_test(${room} ${tests})
    if(NOT SPARKPILOT_PLAIN)
      sparkpilot_together(${room}_test)
    endif()
    target_compile_definitions(${room}_test PRIVATE SPARKPILOT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    target_link_libraries(${room}_test PRIVATE ${room} GTest::gtest_main)
    if(TARGET ops)
      target_link_libraries(${room}_test PRIVATE ops)
    endif()
    gtest_discover_tests(${room}_test NO_PRETTY_VALUES TEST_PREFIX ${room}/ PROPERTIES LABELS unit DISCOVERY_TIMEOUT 60 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  endif()
endfunction()

# The program ROOM_test. With SPARKPILOT_PLAIN, of the objects that the other build made: the room and those that it uses are
# instrumented, the tests themselves are not. The rooms are linked whole and first, so that the linker takes their instances
# of inline functions and templates rather than the tests'.
function(sparkpilot_add_test room)
  if(NOT SPARKPILOT_PLAIN)
    add_executable(${room}_test ${ARGN})
    sparkpilot_test_flags(${room}_test)
    file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/test_objects/${room} CONTENT "$<JOIN:$<TARGET_OBJECTS:${room}_test>,\n>\n")
    return()
  endif()
  file(STRINGS ${SPARKPILOT_PLAIN}/test_objects/${room} objects)
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT ON)
  add_executable(${room}_test ${objects})
  set_target_properties(${room}_test PROPERTIES LINKER_LANGUAGE CXX)
  target_link_options(${room}_test PRIVATE ${SPARKPILOT_SANITIZE_FLAGS})
  get_property(rooms TARGET ${room} PROPERTY SPARKPILOT_ROOMS)
  foreach(instrumented IN LISTS rooms)
    string(APPEND whole " $<TARGET_FILE:${instrumented}>")
  endforeach()
  target_link_options(${room}_test PRIVATE "SHELL:-Wl,--whole-archive${whole} -Wl,--no-whole-archive")
  add_dependencies(${room}_test ${rooms})
endfunction()

# The room of the ops, whose kernels are what -O3 is for.
function(sparkpilot_kernels target)
  target_compile_options(${target} PRIVATE ${SPARKPILOT_KERNEL_FLAGS})
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/cpu/*.cc)
  list(FILTER kernels EXCLUDE REGEX "_test\\.cc$")
  set(level -O3)
  if(SPARKPILOT_SANITIZE)
    set(level -O1)
  endif()
  # CMake's own precompiled headers are of one -O for the whole target.
  sparkpilot_precompiled_for_others(precompiled_kernel op.h OPTIONS ${level} ${SPARKPILOT_KERNEL_FLAGS})
  set(options ${level})
  if(TARGET precompiled_kernel AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_dependencies(${target} precompiled_kernel)
    set(header ${PROJECT_BINARY_DIR}/CMakeFiles/precompiled_kernel.dir/cmake_pch.hxx)
    list(APPEND options -Winvalid-pch -include ${header})
    set_source_files_properties(${kernels} PROPERTIES OBJECT_DEPENDS ${header}.gch)
  endif()
  set_source_files_properties(${kernels} PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${options}")
  # g++ for Arm otherwise loads so many operands of a tile early that sums leave the registers (bench/arm64/one_op.cc counts). Flags of a
  # file take no effect, or half of it, behind a precompiled header, so these files have none.
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(cpu ${PROJECT_SOURCE_DIR}/src/ops/cpu)
    set(tiles ${cpu}/gemm/tile_gemm.cc ${cpu}/gemm/dot_tile.cc ${cpu}/attention/attention_block.cc ${cpu}/int8/int8_gemm.cc)
    set_source_files_properties(${tiles} PROPERTIES COMPILE_OPTIONS "${level};-fno-schedule-insns")
    # It also tears apart stores that are one instruction in pairs, and adds up the place of each row from the last one's.
    set_property(SOURCE ${cpu}/gemm/dot_tile.cc APPEND PROPERTY COMPILE_OPTIONS -fno-tree-ter -fno-tree-slsr)
    # Its usual way of choosing registers spills where a tile takes all 32, 10 of 127 instructions, but not in the others.
    set_property(SOURCE ${cpu}/attention/attention_block.cc APPEND PROPERTY COMPILE_OPTIONS -fira-algorithm=priority)
  endif()
  sparkpilot_simd(${target})
endfunction()

# Highway compiles each SIMD file once per target. On x86-64 AVX2 is the least (require_processor() in hw/cpu.h says what
# happens without), by attributes of the functions: code between them is for every processor. SVE's sizeless vectors cannot
# be members, elements or captures.
function(sparkpilot_simd target)
  target_compile_definitions(${target} PUBLIC
    "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4|HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_definitions(${target} PUBLIC HWY_BASELINE_TARGETS=HWY_AVX2)
  endif()
endfunction()

# The driver's libraries as tests want them, loaded by the code that loads the real ones.
function(sparkpilot_fake_driver)
  if(NOT SPARKPILOT_TESTS)
    return()
  endif()
  foreach(fake nvml nvml_old cuda)
    string(REPLACE "_old" "" source ${fake})
    string(TOUPPER FAKE_${fake} name)
    add_library(fake_${fake} MODULE ${PROJECT_SOURCE_DIR}/tests/fake_driver/${source}.cc)
    target_compile_options(fake_${fake} PRIVATE ${SPARKPILOT_WARNINGS})
    foreach(test hw_test doctor_test)
      target_compile_definitions(${test} PRIVATE ${name}="$<TARGET_FILE:fake_${fake}>")
      add_dependencies(${test} fake_${fake})
    endforeach()
  endforeach()
  target_compile_definitions(fake_nvml_old PRIVATE FAKE_OLD)
endfunction()

# src/ROOM/**/x_fuzz.cc: a libFuzzer program x_fuzz of the room it lies in.
function(sparkpilot_fuzz_targets)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/*_fuzz.cc)
  foreach(source ${sources})
    get_filename_component(target ${source} NAME_WE)
    string(REGEX REPLACE "/.*" "" room ${source})
    set(source ${PROJECT_SOURCE_DIR}/src/${source})
    add_executable(${target} ${source})
    sparkpilot_flags(${target})
    target_link_libraries(${target} PRIVATE ${room} ops)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  endforeach()
  add_subdirectory(tests/fuzz)
endfunction()

# sparkpilot_capnp(TARGET SCHEMA...): what Cap'n Proto's compiler makes of the schemas becomes the static library TARGET,
# included as "route/log/schema/log.capnp.h" where the schema lies.
function(sparkpilot_capnp target)
  foreach(tool capnp capnpc-c++)
    find_program(SPARKPILOT_${tool} ${tool} REQUIRED)
    mark_as_advanced(SPARKPILOT_${tool})
  endforeach()
  find_path(CAPNP_INCLUDE capnp/c++.capnp REQUIRED)
  set(generated ${PROJECT_BINARY_DIR}/generated)
  foreach(schema IN LISTS ARGN)
    list(APPEND inputs ${PROJECT_SOURCE_DIR}/src/${schema})
    list(APPEND sources ${generated}/${schema}.c++)
    list(APPEND headers ${generated}/${schema}.h)
  endforeach()
  file(MAKE_DIRECTORY ${generated})
  add_custom_command(OUTPUT ${sources} ${headers} DEPENDS ${inputs} VERBATIM
                     COMMAND ${SPARKPILOT_capnp} compile --no-standard-import -I${CAPNP_INCLUDE}
                             -o${SPARKPILOT_capnpc-c++}:${generated} --src-prefix=${PROJECT_SOURCE_DIR}/src ${inputs})
  add_custom_target(${target}_headers DEPENDS ${headers})
  add_library(${target} STATIC ${sources})
  target_include_directories(${target} SYSTEM PUBLIC ${generated} ${CAPNP_INCLUDE})
  target_link_libraries(${target} PUBLIC sparkpilot::capnp sparkpilot::kj)
  target_compile_options(${target} PRIVATE ${SPARKPILOT_SANITIZE_FLAGS})
endfunction()

# What is linked with MPI, as a module of its own that the program loads under a launcher. Without MPI there is none.
function(sparkpilot_mpi_module)
  if(CMAKE_CROSSCOMPILING)  # CMake's module asks a compiler wrapper, which is a program of the other machine
    set(openmpi /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi)
    find_path(MPI_HEADERS mpi.h PATHS ${openmpi}/include NO_DEFAULT_PATH)
    find_library(MPI_LIBRARY mpi PATHS ${openmpi}/lib NO_DEFAULT_PATH)
    mark_as_advanced(MPI_HEADERS MPI_LIBRARY)
    if(MPI_HEADERS AND MPI_LIBRARY)
      add_library(MPI::MPI_CXX INTERFACE IMPORTED)
      target_include_directories(MPI::MPI_CXX INTERFACE ${MPI_HEADERS})
      target_compile_definitions(MPI::MPI_CXX INTERFACE OMPI_SKIP_MPICXX)
      target_link_libraries(MPI::MPI_CXX INTERFACE ${MPI_LIBRARY})
    endif()
  else()
    find_package(MPI COMPONENTS CXX)
  endif()
  if(NOT TARGET MPI::MPI_CXX)
    message(STATUS "No MPI: a run is one process")
    return()
  endif()
  add_library(sparkpilot_mpi MODULE ${PROJECT_SOURCE_DIR}/src/comm/mpi_module.cc)
  sparkpilot_flags(sparkpilot_mpi)
  target_link_libraries(sparkpilot_mpi PRIVATE MPI::MPI_CXX)
  add_dependencies(comm sparkpilot_mpi)
endfunction()

# The program.
function(sparkpilot_program program room)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${room}/*.cc)
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  if(sources)
    add_executable(${program} ${sources})
    sparkpilot_flags(${program})
    target_compile_options(${program} PRIVATE -Og)  # it parses flags and prints; the work is in the rooms
    sparkpilot_together(${program})
    sparkpilot_precompiled(${program} HEADER ${room}.h)
    target_link_libraries(${program} PRIVATE ${ARG_LINK})
  endif()
endfunction()

# A test program that uses the whole of sparkpilot, and what it may run.
function(sparkpilot_end_to_end_test test)
  add_executable(${test} ${ARGN})
  sparkpilot_test_flags(${test})
  target_compile_definitions(${test} PRIVATE SPARKPILOT_SOURCE_DIR="${PROJECT_SOURCE_DIR}" SPARKPILOT_CXX="${CMAKE_CXX_COMPILER}")
  target_link_libraries(${test} PRIVATE bench drive train sim GTest::gtest_main)  # for those without a main()
  if(TARGET sparkpilot)
    target_compile_definitions(${test} PRIVATE SPARKPILOT_PROGRAM="$<TARGET_FILE:sparkpilot>")
    add_dependencies(${test} sparkpilot)
  endif()
  if(TARGET fake_cuda)  # the program where there is a GPU
    target_compile_definitions(${test} PRIVATE FAKE_CUDA="$<TARGET_FILE:fake_cuda>" FAKE_NVML="$<TARGET_FILE:fake_nvml>")
    add_dependencies(${test} fake_cuda fake_nvml)
  endif()
  if(TARGET emulated_cuda)  # and where it is an emulator's
    target_compile_definitions(${test} PRIVATE EMULATED_CUDA="$<TARGET_FILE_DIR:emulated_cuda>"
                               EMULATED_CUDA_CHECKED="$<TARGET_FILE_DIR:emulated_cuda_checked>"
                               EMULATED_NCCL="$<TARGET_FILE_DIR:emulated_nccl>")
    add_dependencies(${test} emulated_cuda emulated_cuda_checked emulated_nccl)
  endif()
  if(TARGET fake_nvtx)
    target_compile_definitions(${test} PRIVATE FAKE_NVTX="$<TARGET_FILE:fake_nvtx>")
    add_dependencies(${test} fake_nvtx)
  endif()
  if(TARGET gpu_check)
    target_compile_definitions(${test} PRIVATE GPU_CHECK="$<TARGET_FILE:gpu_check>")
    add_dependencies(${test} gpu_check)
  endif()
  gtest_discover_tests(${test} NO_PRETTY_VALUES PROPERTIES LABELS e2e DISCOVERY_TIMEOUT 60 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endfunction()

# tests/*_test.cc: a program each; with SPARKPILOT_TOGETHER, those that have no main() or operator new of their own are two,
# e2e_test and gpu_e2e_test, which runs with the emulated driver. They start programs, which an emulator of another processor does
# not do for them: there scripts/check_arm64.py takes their place.
function(sparkpilot_end_to_end_tests)
  if(NOT SPARKPILOT_TESTS OR SPARKPILOT_PLAIN OR CMAKE_CROSSCOMPILING)
    return()
  endif()
  file(GLOB tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*_test.cc)
  if(SPARKPILOT_SANITIZE)  # it counts in an operator new of its own, which the sanitizer has too
    list(FILTER tests EXCLUDE REGEX "/allocation_test\\.cc$")
  endif()
  if(NOT TARGET emulated_cuda)
    list(FILTER tests EXCLUDE REGEX "/gpu_[a-z_]*test\\.cc$")
  endif()
  if(NOT TARGET gpu_check)
    list(FILTER tests EXCLUDE REGEX "/gpu_check_[a-z_]*test\\.cc$")
  endif()
  if(NOT TARGET fake_nvtx)
    list(FILTER tests EXCLUDE REGEX "/nvtx_test\\.cc$")
  endif()
  foreach(source ${tests})
    get_filename_component(program ${source} NAME_WE)
    file(STRINGS ${source} alone REGEX "^int main|^void\\* operator new")
    file(STRINGS ${source} by_emulator REGEX "^#include \"gpu_(main|sessions)\\.h\"")
    if(SPARKPILOT_TOGETHER AND NOT alone)
      set(program e2e_test)
      if(by_emulator)
        set(program gpu_e2e_test)
      endif()
    endif()
    list(APPEND programs ${program})
    list(APPEND ${program}_sources ${source})
    if(by_emulator AND NOT alone)
      list(APPEND ${program}_sources ${PROJECT_SOURCE_DIR}/tests/gpu_main.cc)
    endif()
  endforeach()
  list(REMOVE_DUPLICATES programs)
  foreach(program ${programs})
    list(REMOVE_DUPLICATES ${program}_sources)
    sparkpilot_end_to_end_test(${program} ${${program}_sources})
    if(program MATCHES "e2e_test$")
      sparkpilot_together(${program})
    endif()
  endforeach()
endfunction()

# The op table once more with the kernels of lesser processors (docs/configuration.md, `cpu`).
function(sparkpilot_level_tests)
  if(NOT SPARKPILOT_TESTS OR SPARKPILOT_PLAIN)
    return()
  endif()
  set(levels baseline)
  if(NOT SPARKPILOT_SANITIZE)
    list(APPEND levels avx512)
  endif()
  foreach(level IN LISTS levels)
    add_test(NAME ops/OpTable.${level} COMMAND ops_test --gtest_filter=OpTable.EveryCandidate*
             WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(ops/OpTable.${level} PROPERTIES LABELS unit ENVIRONMENT SPARKPILOT_CPU=${level}
                         SKIP_REGULAR_EXPRESSION "this processor has no ${level}")
  endforeach()
endfunction()

# Tests that are scripts: the include rules, held by the sources and by a tree made to break them, and the house's rules.
function(sparkpilot_script_tests)
  if(NOT SPARKPILOT_TESTS)
    return()
  endif()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME house/IncludeRules COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/include_rules.py)
  add_test(NAME house/IncludeRulesChecker COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/include_rules_test.py)
  add_test(NAME house/House COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/house_test.py)
  set_tests_properties(house/IncludeRules house/IncludeRulesChecker house/House PROPERTIES LABELS unit)
  add_test(NAME install/Sbom COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/sbom_test.py)
  set_tests_properties(install/Sbom PROPERTIES LABELS unit)
  # The tutorial's commands, as a reader runs them.
  if(TARGET sparkpilot AND NOT SPARKPILOT_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/tutorial/*.md)
    list(FILTER pages EXCLUDE REGEX "/README\\.md$")
    foreach(page IN LISTS pages)
      get_filename_component(name ${page} NAME_WE)
      add_test(NAME tutorial/${name} COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/tutorial_test.py
               $<TARGET_FILE:sparkpilot> ${page})
      set_tests_properties(tutorial/${name} PROPERTIES LABELS e2e)
    endforeach()
  endif()
  add_test(NAME cuda/NvccVersion COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/nvcc_version_test.py
           ${CMAKE_COMMAND} ${PROJECT_SOURCE_DIR})
  set_tests_properties(cuda/NvccVersion PROPERTIES LABELS unit)
  # What the compiler made of the CUDA kernels: of an nvcc of 12.9 or newer, whose images can be unpacked.
  get_property(by_zstd GLOBAL PROPERTY SPARKPILOT_IMAGES_BY_ZSTD)
  if(TARGET ops AND by_zstd AND NOT SPARKPILOT_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    set(images ${PROJECT_BINARY_DIR}/generated/ops/cuda)
    add_test(NAME cuda/Budget COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/gpu_budget.py ${images})
    add_test(NAME cuda/BudgetChecker COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/gpu_budget_test.py ${NVCC} ${images})
    set_tests_properties(cuda/Budget cuda/BudgetChecker PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
    if(TARGET sparkpilot)
      add_test(NAME cuda/ImagesOfTheProgram COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/gpu_images_test.py
        $<TARGET_FILE:sparkpilot> ${images})
      set_tests_properties(cuda/ImagesOfTheProgram PROPERTIES LABELS e2e)
    endif()
    if(TARGET emulated_cuda AND TARGET sparkpilot)
      add_test(NAME cuda/ModelledTime COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/gpu_model_test.py ${PROJECT_BINARY_DIR})
      set_tests_properties(cuda/ModelledTime PROPERTIES LABELS e2e)
    endif()
  endif()
  # In a browser, where one is installed; how the page is made is not what a sanitizer or an emulator would find.
  if(TARGET route_test AND NOT SPARKPILOT_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    add_test(NAME route/PageInBrowser COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/page_test.py $<TARGET_FILE:route_test>)
    set_tests_properties(route/PageInBrowser PROPERTIES LABELS e2e SKIP_RETURN_CODE 77 TIMEOUT 300)
  endif()
  # ncurses keeps memory to the end; what is drawn is tested under sanitizers without it.
  if(TARGET sparkpilot AND TARGET fake_nvml AND NOT SPARKPILOT_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    add_test(NAME monitor/ViewInTerminal COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/monitor_view_test.py
             $<TARGET_FILE:sparkpilot> $<TARGET_FILE:fake_nvml>)
    set_tests_properties(monitor/ViewInTerminal PROPERTIES LABELS e2e SKIP_RETURN_CODE 77 TIMEOUT 600)
  endif()
  # The environment for learning, from C and, where it is installed, from Gymnasium.
  if(TARGET sim_shared)
    add_executable(sim_env_test ${PROJECT_SOURCE_DIR}/tests/sim_env_test.c)
    target_compile_options(sim_env_test PRIVATE -Wall -Wextra -Wpedantic $<$<BOOL:${SPARKPILOT_WERROR}>:-Werror>)
    set_target_properties(sim_env_test PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
    target_include_directories(sim_env_test PRIVATE ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(sim_env_test PRIVATE sim_shared m)
    add_test(NAME capi/SimEnv COMMAND sim_env_test)
    set_tests_properties(capi/SimEnv PROPERTIES LABELS e2e)
    if(TARGET emulated_cuda)
      foreach(gpu gb10 h100)
        add_test(NAME capi/SimEnvOnAnEmulatedGpu/${gpu} COMMAND sim_env_test cuda)
        set_tests_properties(capi/SimEnvOnAnEmulatedGpu/${gpu} PROPERTIES LABELS e2e SKIP_RETURN_CODE 77
          ENVIRONMENT "LD_LIBRARY_PATH=$<TARGET_FILE_DIR:emulated_cuda>;EMULATED_GPU=${gpu}")
      endforeach()
    endif()
    if(NOT CMAKE_CROSSCOMPILING)
      add_test(NAME capi/SimEnvSymbols COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/capi_symbols_test.py
               $<TARGET_FILE:sim_shared> ${PROJECT_SOURCE_DIR}/include/sparkpilot/sim_env.h)
      add_test(NAME capi/SimEnvPage COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/sim_env_page_test.py
               $<TARGET_FILE:sim_shared>)
      add_test(NAME capi/SimEnvInGymnasium COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/sim_env_gym_test.py
               $<TARGET_FILE:sim_shared>)
      set_tests_properties(capi/SimEnvSymbols capi/SimEnvPage capi/SimEnvInGymnasium PROPERTIES LABELS e2e SKIP_RETURN_CODE 77)
    endif()
  endif()
  # Sessions from C.
  if(TARGET c_shared)
    add_executable(session_test ${PROJECT_SOURCE_DIR}/tests/session_test.c)
    target_compile_options(session_test PRIVATE -Wall -Wextra -Wpedantic $<$<BOOL:${SPARKPILOT_WERROR}>:-Werror>)
    set_target_properties(session_test PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
    target_include_directories(session_test PRIVATE ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(session_test PRIVATE c_shared Threads::Threads)
    add_test(NAME capi/Session COMMAND session_test ${PROJECT_SOURCE_DIR}/models/demo_supercombo.onnx)
    set_tests_properties(capi/Session PROPERTIES LABELS e2e)
    if(NOT CMAKE_CROSSCOMPILING)
      add_test(NAME capi/SessionSymbols COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/capi_symbols_test.py
               $<TARGET_FILE:c_shared> ${PROJECT_SOURCE_DIR}/include/sparkpilot/sparkpilot.h)
      set_tests_properties(capi/SessionSymbols PROPERTIES LABELS e2e)
    endif()
  endif()
  if(TARGET sparkpilot AND NOT SPARKPILOT_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    add_test(NAME cli/Completion COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/completion_test.py $<TARGET_FILE:sparkpilot>)
    set_tests_properties(cli/Completion PROPERTIES LABELS e2e)
  endif()
  # What users link is not instrumented, and is not run in an emulator.
  if(SPARKPILOT_PROGRAM AND SPARKPILOT_INSTALL AND NOT SPARKPILOT_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    add_test(NAME install/FindPackage COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/install_test.py
             --build ${PROJECT_BINARY_DIR} --cmake ${CMAKE_COMMAND} --compiler ${CMAKE_CXX_COMPILER})
    set_tests_properties(install/FindPackage PROPERTIES LABELS e2e)
  endif()
endfunction()
