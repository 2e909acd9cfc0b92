# What every target of the project is compiled with. Targets of other projects are not touched.

add_library(reprieve_settings INTERFACE)
target_include_directories(reprieve_settings INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_options(reprieve_settings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
if(REPRIEVE_WERROR)
  target_compile_options(reprieve_settings INTERFACE -Werror)
endif()

if(REPRIEVE_SANITIZE)
  # For the whole tree, also what is fetched: a sanitizer that sees only half of a program reports what is not so.
  add_compile_options(-fsanitize=${REPRIEVE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${REPRIEVE_SANITIZE})
endif()

if(REPRIEVE_LTO)
  include(CheckIPOSupported)
  check_ipo_supported(RESULT lto_works OUTPUT lto_reason LANGUAGES CXX)
  if(lto_works)
    set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)
  else()
    message(WARNING "REPRIEVE_LTO is ignored: ${lto_reason}")
  endif()
endif()

# A shared library shows the functions that start with one of the prefixes, those of the C++ namespaces behind
# NAMESPACES, and nothing else. The version script hides
# what visibility cannot: templates of std:: and fmt that the compiler exports as weak symbols.
function(reprieve_export_only target)
  cmake_parse_arguments(arg "" "" "NAMESPACES" ${ARGN})
  list(JOIN arg_UNPARSED_ARGUMENTS "*; " patterns)
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${target}.map)
  set(names "")
  foreach(namespace ${arg_NAMESPACES})
    string(APPEND names "${namespace}::*; ")
  endforeach()
  if(names)
    set(names "extern \"C++\" { ${names}}; ")
  endif()
  file(CONFIGURE OUTPUT ${script} CONTENT "{ global: ${patterns}*; ${names}local: *; };\n")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${script})
  target_link_options(${target} PRIVATE LINKER:--version-script=${script} LINKER:--as-needed)
  if(NOT (REPRIEVE_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES "Clang"))
    # clang leaves a sanitizer's own symbols to the executable.
    target_link_options(${target} PRIVATE LINKER:-z,defs)
  endif()
endfunction()
