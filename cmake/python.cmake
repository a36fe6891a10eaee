# The Python module, where the distribution's pybind11 and Python's headers are: build/python holds the package as it is
# imported. Nothing else needs it.

# The distribution's Python, whose packages pybind11 and NumPy are, before what else PATH has.
find_program(SPARKPILOT_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH DOC "The Python that the module is built for")
find_program(SPARKPILOT_PYTHON python3)
mark_as_advanced(SPARKPILOT_PYTHON)

function(sparkpilot_python)
  if(SPARKPILOT_SANITIZE OR SPARKPILOT_FUZZ OR SPARKPILOT_PLAIN OR NOT TARGET sparkpilot_library)
    return()
  endif()
  find_path(PYBIND11_INCLUDE pybind11/pybind11.h)
  mark_as_advanced(PYBIND11_INCLUDE)
  set(ask "import sysconfig; print(sysconfig.get_path('include'), sysconfig.get_config_var('EXT_SUFFIX'), sep=';', end='')")
  execute_process(COMMAND ${SPARKPILOT_PYTHON} -c "${ask}" OUTPUT_VARIABLE answer ERROR_QUIET)
  list(POP_FRONT answer headers suffix)
  if(CMAKE_CROSSCOMPILING)  # the same version of Python for the other architecture: .cpython-311-aarch64-linux-gnu.so
    get_filename_component(version "${headers}" NAME)
    find_path(SPARKPILOT_PYTHON_HEADERS Python.h PATHS /usr/include PATH_SUFFIXES ${version} NO_DEFAULT_PATH)
    mark_as_advanced(SPARKPILOT_PYTHON_HEADERS)
    set(headers ${SPARKPILOT_PYTHON_HEADERS})
    string(REPLACE "-${CMAKE_HOST_SYSTEM_PROCESSOR}-" "-${CMAKE_SYSTEM_PROCESSOR}-" suffix "${suffix}")
  endif()
  if(NOT PYBIND11_INCLUDE OR NOT EXISTS "${headers}/Python.h")
    message(STATUS "No Python module: pybind11 or Python's headers are missing (pybind11-dev, python3-dev)")
    add_custom_target(sparkpilot_python)  # nothing, for those who build it by name
    return()
  endif()
  set(package ${PROJECT_BINARY_DIR}/python/sparkpilot)
  # sparkpilot_python_module(TARGET NAME FOLDER): src/FOLDER as the package's module NAME.
  macro(sparkpilot_python_module target name folder)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cc)
    add_library(${target} MODULE ${sources})
    sparkpilot_flags(${target})
    target_include_directories(${target} SYSTEM PRIVATE ${PYBIND11_INCLUDE} ${headers})
    sparkpilot_precompiled(${target} HEADER python.h)
    sparkpilot_together(${target})
    target_compile_options(${target} PRIVATE -O1)  # it hands over; the work is in the library
    # Python finds one function in it. What else it holds must not take the place of other modules' symbols.
    target_link_options(${target} PRIVATE LINKER:--exclude-libs,ALL)
    set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${name} SUFFIX "${suffix}"
                          LIBRARY_OUTPUT_DIRECTORY ${package} CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  endmacro()
  sparkpilot_python_module(sparkpilot_python _core python)
  target_link_libraries(sparkpilot_python PRIVATE sparkpilot::sparkpilot fmt::fmt)
  if(TARGET route)
    sparkpilot_python_module(sparkpilot_python_route _route pyroute)
    # Of the room it takes the readers, and needs the libraries of those alone.
    target_link_options(sparkpilot_python_route PRIVATE LINKER:--gc-sections LINKER:--as-needed)
    target_link_libraries(sparkpilot_python_route PRIVATE route fmt::fmt)
    add_dependencies(sparkpilot_python sparkpilot_python_route)
  endif()
  # What is written in Python, beside it.
  file(GLOB scripts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/sparkpilot/*.py* ${PROJECT_SOURCE_DIR}/python/sparkpilot/py.typed)
  foreach(script IN LISTS scripts)
    get_filename_component(name ${script} NAME)
    add_custom_command(OUTPUT ${package}/${name} DEPENDS ${script} VERBATIM
                       COMMAND ${CMAKE_COMMAND} -E copy ${script} ${package}/${name})
    list(APPEND copies ${package}/${name})
  endforeach()
  add_custom_target(sparkpilot_python_scripts DEPENDS ${copies})
  add_dependencies(sparkpilot_python sparkpilot_python_scripts)
  if(TARGET sim_shared)
    add_custom_command(OUTPUT ${package}/libsparkpilot_sim.so DEPENDS sim_shared VERBATIM
                       COMMAND ${CMAKE_COMMAND} -E create_symlink $<TARGET_FILE:sim_shared> ${package}/libsparkpilot_sim.so)
    add_custom_target(sparkpilot_python_worlds ALL DEPENDS ${package}/libsparkpilot_sim.so)
  endif()
endfunction()

# tests/python/*_test.py, by that Python with that package.
function(sparkpilot_python_tests)
  if(NOT SPARKPILOT_TESTS OR CMAKE_CROSSCOMPILING OR SPARKPILOT_SANITIZE OR SPARKPILOT_PLAIN OR NOT PROJECT_IS_TOP_LEVEL)
    return()
  endif()
  file(GLOB tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/python/*_test.py)
  foreach(source IN LISTS tests)
    get_filename_component(name ${source} NAME_WE)
    string(REGEX REPLACE "_test$" "" name ${name})
    add_test(NAME python/${name} COMMAND ${SPARKPILOT_PYTHON} ${source})
    set_tests_properties(python/${name} PROPERTIES LABELS e2e SKIP_RETURN_CODE 77 ENVIRONMENT
                         "PYTHONPATH=${PROJECT_BINARY_DIR}/python;SPARKPILOT_BUILD=${PROJECT_BINARY_DIR}")
  endforeach()
endfunction()
