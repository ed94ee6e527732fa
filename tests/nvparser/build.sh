#!/bin/sh
# Compiles NVIDIA's parser and replay.cpp. Usage: sh tests/nvparser/build.sh SRC VULKAN OUT
# SRC: a checkout of https://github.com/nvpro-samples/vk_video_samples (Apache 2). VULKAN: the folder "include" of
# https://github.com/KhronosGroup/Vulkan-Headers, as new as that. OUT: where object files and the program go.
set -e
src=$1; vulkan=$2; out=$3; here=$(dirname "$0")
[ -e "$src/vk_video_decoder/libs/NvVideoParser/src/VulkanH265Parser.cpp" ] || {
    echo "SRC=$src is no checkout of vk_video_samples" >&2
    exit 1
}
[ -e "$vulkan/vk_video/vulkan_video_codec_av1std_decode.h" ] || {
    echo "VULKAN=$vulkan has no vk_video/vulkan_video_codec_av1std_decode.h: a checkout of Vulkan-Headers has it" >&2
    exit 1
}
parser=$src/vk_video_decoder/libs/NvVideoParser
mkdir -p "$out"
compile() { # source object
    ${CXX:-g++} -std=c++17 -O1 -w -DNDEBUG -DNVPARSER_IMPLEMENTATION -DDISABLE_VK_VIDEO_PARSER_SIMD_OPTIMIZATIONS \
        -I "$vulkan" -I "$src/vk_video_decoder/include" -I "$src/vk_video_decoder/include/NvVideoParser" \
        -I "$src/vk_video_decoder/include/vkvideo_parser" -I "$parser/include" -I "$src/common/include" \
        -I "$src/common/libs" -c "$1" -o "$2"
}
objects=
for file in "$parser"/src/*.cpp "$here/replay.cpp"; do
    case $file in */NextStartCodeAVX*|*/NextStartCodeSSSE3*|*/NextStartCodeNEON*|*/NextStartCodeSVE*) continue ;; esac
    object=$out/$(basename "$file" .cpp).o
    [ "$object" -nt "$file" ] || compile "$file" "$object"
    objects="$objects $object"
done
# shellcheck disable=SC2086
${CXX:-g++} -o "$out/replay" $objects -lpthread
