# The stand-in libraries are linked under the sonames and symbol versions that torch asks for, and filled up with stubs
# for what torch imports and the stand-in does not define (imports.py, stubs.py). Without a torch there are no stubs.

set(REPRIEVE_STANDIN_TORCH "" CACHE PATH
    "The folder that holds torch/ (its site-packages), for which the stand-in CUDA libraries are built; empty: for none")

set(standin_folder ${CMAKE_BINARY_DIR}/lib/standin)
set(standin_imports ${standin_folder}/imports.json)
find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter)
file(MAKE_DIRECTORY ${standin_folder})
if(REPRIEVE_STANDIN_TORCH)
  execute_process(COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/imports.py ${REPRIEVE_STANDIN_TORCH}
                          --output ${standin_imports} RESULT_VARIABLE failed ERROR_VARIABLE said)
  if(failed)
    message(FATAL_ERROR "REPRIEVE_STANDIN_TORCH=${said}")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${REPRIEVE_STANDIN_TORCH}/torch/version.py)
else()
  file(CONFIGURE OUTPUT ${standin_imports} CONTENT "{\"torch\": \"\", \"requires\": {}, \"libraries\": {}}\n")
endif()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/imports.py)
file(READ ${standin_imports} standin_imports_text)

# reprieve_standin_library(name SONAME soname [SOURCES …] [LINK …]): <build>/lib/standin/<soname>, which shows what the
# sources define with C linkage and default visibility, and stubs for the rest.
function(reprieve_standin_library name)
  cmake_parse_arguments(arg "" "SONAME" "SOURCES;LINK" ${ARGN})
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${arg_SONAME}.stubs.cpp)
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${arg_SONAME}.map)
  set(objects)
  if(arg_SOURCES)
    add_library(${name}_objects OBJECT ${arg_SOURCES})
    target_link_libraries(${name}_objects PRIVATE ${arg_LINK} reprieve_settings)
    set(objects $<TARGET_OBJECTS:${name}_objects>)
  endif()
  add_custom_command(
    OUTPUT ${source} ${script}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/stubs.py ${standin_imports} ${arg_SONAME}
            --source ${source} --version-script ${script} --defined ${objects}
    DEPENDS ${objects} ${standin_imports} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/stubs.py
    COMMAND_EXPAND_LISTS VERBATIM)
  add_library(${name} SHARED ${objects} ${source})
  target_link_libraries(${name} PRIVATE ${arg_LINK} reprieve_settings)
  set_target_properties(${name} PROPERTIES PREFIX "" OUTPUT_NAME ${arg_SONAME} SUFFIX ""
                        LIBRARY_OUTPUT_DIRECTORY ${standin_folder} LINK_DEPENDS ${script})
  target_link_options(${name} PRIVATE LINKER:--version-script=${script} LINKER:--as-needed)
  add_dependencies(reprieve_standin ${name})
endfunction()

# Of the libraries that have no stand-in: all of them work on a GPU and nowhere else, so they are replaced also where
# they are installed. Real ones would fail as well, but less clearly.
function(reprieve_standin_stub_libraries)
  string(JSON count LENGTH "${standin_imports_text}" libraries)
  if(count EQUAL 0)
    return()
  endif()
  math(EXPR last "${count} - 1")
  foreach(index RANGE ${last})
    string(JSON soname MEMBER "${standin_imports_text}" libraries ${index})
    string(REGEX REPLACE "^lib([^.]+)\\.so.*$" "\\1" stem ${soname})
    if(NOT TARGET reprieve_standin_${stem} AND NOT ${soname} IN_LIST ARGN)
      reprieve_standin_library(reprieve_standin_${stem} SONAME ${soname})
    endif()
  endforeach()
endfunction()
