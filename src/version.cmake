# cmake -D SOURCE=. -D OUTPUT=version.h -D OCTET_VERSION=0.1.0 -P version.cmake: writes the file when the commit has changed.
# -D OCTET_COMMIT=1234abcd names it where there is no repository.
if(NOT OCTET_COMMIT)
  set(OCTET_COMMIT unknown)
endif()
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} describe --always --dirty WORKING_DIRECTORY ${SOURCE} RESULT_VARIABLE failed
                  OUTPUT_VARIABLE described ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT failed)
    set(OCTET_COMMIT ${described})
  endif()
endif()
configure_file(${SOURCE}/src/version.h.in ${OUTPUT} @ONLY)
