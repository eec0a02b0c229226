# find_package(octet): the target octet::octet.
include(${CMAKE_CURRENT_LIST_DIR}/octetTargets.cmake)
