# Libraries that are linked by their files, as targets sparkpilot::NAME. The build and the installed package include this, so
# that the package looks for them on the machine where it is used.
#
# oneDNN's own config file asks for OpenCL, which the CPU engine does not need; of ONNX only the messages are used.
set(SPARKPILOT_LIBRARIES onnx_proto dnnl hwy)

# sparkpilot_find_library(NAME [REQUIRED]): sparkpilot_NAME_LIBRARY holds where it is.
function(sparkpilot_find_library name)
  find_library(sparkpilot_${name}_LIBRARY ${name} ${ARGN})
  mark_as_advanced(sparkpilot_${name}_LIBRARY)
  if(sparkpilot_${name}_LIBRARY AND NOT TARGET sparkpilot::${name})
    add_library(sparkpilot::${name} UNKNOWN IMPORTED)
    set_target_properties(sparkpilot::${name} PROPERTIES IMPORTED_LOCATION ${sparkpilot_${name}_LIBRARY})
  endif()
endfunction()
