# The library as others use it: one archive, the public headers, a CMake package. `sparkpilot::sparkpilot` is its name both
# after find_package(sparkpilot) and after add_subdirectory(); `sparkpilot::sim` and `sparkpilot::c` are the C libraries.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# sparkpilot_library(ROOMS...): their objects in one archive, as the rooms' own would have to be named in the right order, and
# more than once where two need each other.
function(sparkpilot_library)
  foreach(room IN LISTS ARGN)
    list(APPEND objects $<TARGET_OBJECTS:${SPARKPILOT_PREFIX}${room}>)
  endforeach()
  set(images ${SPARKPILOT_PREFIX}ops_images)
  list(APPEND objects $<$<TARGET_EXISTS:${images}>:$<TARGET_OBJECTS:${images}>>)
  # sparkpilot/training.h stands on these two files of the room train, whose other files need more than the library has.
  add_library(sparkpilot_training OBJECT ${PROJECT_SOURCE_DIR}/src/train/program.cc ${PROJECT_SOURCE_DIR}/src/train/training.cc)
  sparkpilot_flags(sparkpilot_training)
  sparkpilot_precompiled(sparkpilot_training FROM precompiled_op)
  target_link_libraries(sparkpilot_training PRIVATE ${SPARKPILOT_PREFIX}grad ${SPARKPILOT_PREFIX}runtime)
  add_library(sparkpilot_library STATIC ${objects} $<TARGET_OBJECTS:sparkpilot_training>)
  add_library(sparkpilot::sparkpilot ALIAS sparkpilot_library)
  # Without sources of its own it does not know which linker the objects want.
  set_target_properties(sparkpilot_library PROPERTIES OUTPUT_NAME sparkpilot EXPORT_NAME sparkpilot LINKER_LANGUAGE CXX)
  target_compile_features(sparkpilot_library PUBLIC cxx_std_20)
  target_include_directories(sparkpilot_library INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  list(TRANSFORM SPARKPILOT_LIBRARIES PREPEND sparkpilot:: OUTPUT_VARIABLE libraries)
  if(NOT SPARKPILOT_SERIAL)
    list(APPEND libraries OpenMP::OpenMP_CXX)
  endif()
  target_link_libraries(sparkpilot_library PRIVATE ${libraries} protobuf::libprotobuf fmt::fmt Threads::Threads)
  target_link_options(sparkpilot_library INTERFACE ${SPARKPILOT_SANITIZE_FLAGS})
endfunction()

# A C library as others link it: `sparkpilot::NAME`.
function(sparkpilot_name_c_library target name)
  # Not what sparkpilot_flags() gives: the sources are not installed.
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} INTERFACE_INCLUDE_DIRECTORIES
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>;$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  add_library(sparkpilot::${name} ALIAS ${target})
endfunction()

# The environment for learning, as a shared library of C functions (include/sparkpilot/sim_env.h). Of the room ops it takes the
# file that finds kernels, and of others what that and the simulator use: it needs none of the libraries of the rest.
function(sparkpilot_sim_library)
  if(NOT TARGET sim OR SPARKPILOT_PLAIN OR SPARKPILOT_SANITIZE OR SPARKPILOT_FUZZ)
    return()
  endif()
  set(exports ${PROJECT_SOURCE_DIR}/src/capi/sim_env.map)
  add_library(sim_shared SHARED ${PROJECT_SOURCE_DIR}/src/capi/sim_env.cc)
  sparkpilot_flags(sim_shared)
  add_dependencies(sim_shared sim ops)
  target_link_libraries(sim_shared PRIVATE $<TARGET_FILE:sim> $<TARGET_FILE:ops> tensor fmt::fmt sparkpilot::hwy)
  target_link_options(sim_shared PRIVATE LINKER:--version-script=${exports} LINKER:--no-undefined LINKER:--gc-sections)
  set_target_properties(sim_shared PROPERTIES OUTPUT_NAME sparkpilot_sim SOVERSION 3 LINK_DEPENDS ${exports})
  sparkpilot_name_c_library(sim_shared sim)
endfunction()

# Sessions, as a shared library of C functions (include/sparkpilot/sparkpilot.h) that holds the rooms it needs.
function(sparkpilot_c_library)
  if(NOT PROJECT_IS_TOP_LEVEL OR SPARKPILOT_PLAIN OR SPARKPILOT_SANITIZE OR SPARKPILOT_FUZZ)
    return()
  endif()
  set(exports ${PROJECT_SOURCE_DIR}/src/capi/session.map)
  add_library(c_shared SHARED ${PROJECT_SOURCE_DIR}/src/capi/session.cc)
  sparkpilot_flags(c_shared)
  target_link_libraries(c_shared PRIVATE runtime)
  target_link_options(c_shared PRIVATE LINKER:--version-script=${exports} LINKER:--no-undefined LINKER:--gc-sections)
  set_target_properties(c_shared PROPERTIES OUTPUT_NAME sparkpilot_c SOVERSION 1 LINK_DEPENDS ${exports})
  sparkpilot_name_c_library(c_shared c)
endfunction()

# What shells and man know of the program, made by the installed build of it from the tables that --help prints.
function(sparkpilot_install_pages)
  if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
    message(STATUS "No manual pages and completions: the program cannot run here")
    return()
  endif()
  set(made "${PROJECT_BINARY_DIR}/generated/pages")
  # Where the emulator is not there, it is installed on the processor that it was built for (scripts/package_arm64.sh).
  install(CODE "
    set(emulator \"${CMAKE_CROSSCOMPILING_EMULATOR}\")
    if(emulator)
      list(GET emulator 0 first)
      find_program(there \${first} NO_CACHE)
      if(NOT there)
        set(emulator \"\")
      endif()
    endif()
    file(MAKE_DIRECTORY \"${made}\")
    foreach(shell bash zsh fish)
      execute_process(COMMAND \${emulator} \"$<TARGET_FILE:sparkpilot>\" completion \${shell}
                      OUTPUT_FILE \"${made}/\${shell}\" COMMAND_ERROR_IS_FATAL ANY)
    endforeach()
    execute_process(COMMAND \${emulator} \"$<TARGET_FILE:sparkpilot>\" man --out \"${made}/man1\"
                    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)")
  set(share ${CMAKE_INSTALL_DATADIR})
  install(FILES ${made}/bash DESTINATION ${share}/bash-completion/completions RENAME sparkpilot)
  install(FILES ${made}/zsh DESTINATION ${share}/zsh/site-functions RENAME _sparkpilot)
  install(FILES ${made}/fish DESTINATION ${share}/fish/vendor_completions.d RENAME sparkpilot.fish)
  install(DIRECTORY ${made}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
endfunction()

function(sparkpilot_install)
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/sparkpilot)
  if(TARGET sparkpilot)
    install(TARGETS sparkpilot)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/peers DESTINATION ${CMAKE_INSTALL_DATADIR}/sparkpilot
            USE_SOURCE_PERMISSIONS FILES_MATCHING PATTERN "*.py")
    install(FILES ${PROJECT_SOURCE_DIR}/models/demo_supercombo.onnx DESTINATION ${CMAKE_INSTALL_DATADIR}/sparkpilot/models)
    sparkpilot_install_pages()
  endif()
  install(TARGETS sparkpilot_library EXPORT sparkpilot)
  if(TARGET sim_shared)
    install(TARGETS sim_shared EXPORT sparkpilot)
  endif()
  if(TARGET sparkpilot_mpi)
    install(TARGETS sparkpilot_mpi DESTINATION lib/sparkpilot)  # where comm.cc looks for it
  endif()
  if(TARGET c_shared)
    install(TARGETS c_shared EXPORT sparkpilot)
    file(RELATIVE_PATH SPARKPILOT_UP_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/sparkpilot.pc.in ${PROJECT_BINARY_DIR}/sparkpilot.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/sparkpilot.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  endif()
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/sparkpilot DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT sparkpilot NAMESPACE sparkpilot:: FILE sparkpilotTargets.cmake DESTINATION ${package})
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/sparkpilotConfig.cmake.in
                                ${PROJECT_BINARY_DIR}/sparkpilotConfig.cmake INSTALL_DESTINATION ${package}
                                NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/sparkpilotConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/sparkpilotConfig.cmake ${PROJECT_BINARY_DIR}/sparkpilotConfigVersion.cmake
          ${PROJECT_SOURCE_DIR}/cmake/libraries.cmake DESTINATION ${package})
endfunction()
