vcpkg_download_distfile(ARCHIVE URLS "@URL@/benzina-pair-@VERSION@.tar.gz" FILENAME "benzina-pair-@VERSION@.tar.gz"
    SHA512 @SHA512@)
vcpkg_extract_source_archive(SOURCE ARCHIVE "${ARCHIVE}")
# The port is the library alone.
file(REMOVE_RECURSE "${SOURCE}/formats" "${SOURCE}/stream")
vcpkg_check_features(OUT_FEATURE_OPTIONS OPTIONS
    FEATURES avcodec BENZINA_WITH_AVCODEC jpeg BENZINA_WITH_JPEG cuda BENZINA_WITH_CUDA)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE}" OPTIONS ${OPTIONS})
vcpkg_cmake_install()
# CMake installs both kinds of libraries, and a port is of one kind.
if(VCPKG_LIBRARY_LINKAGE STREQUAL "static")
    file(GLOB OTHERS "${CURRENT_PACKAGES_DIR}/lib/*.so*" "${CURRENT_PACKAGES_DIR}/debug/lib/*.so*"
        "${CURRENT_PACKAGES_DIR}/lib/*.dylib" "${CURRENT_PACKAGES_DIR}/debug/lib/*.dylib")
else()
    file(GLOB OTHERS "${CURRENT_PACKAGES_DIR}/lib/*.a" "${CURRENT_PACKAGES_DIR}/debug/lib/*.a")
endif()
file(REMOVE ${OTHERS})
# vcpkg keeps what find_package reads in share/, from which the libraries are looked for.
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/lib/cmake")
file(COPY "${CURRENT_PACKAGES_DIR}/lib/cmake/benzina" DESTINATION "${CURRENT_PACKAGES_DIR}/share")
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/lib/cmake")
vcpkg_replace_string("${CURRENT_PACKAGES_DIR}/share/benzina/benzinaConfig.cmake" "{benzina_lib}/../.."
    "{benzina_lib}/../../lib")
vcpkg_fixup_pkgconfig()
vcpkg_install_copyright(FILE_LIST "${SOURCE}/LICENSE")
