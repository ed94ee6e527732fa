# The kernel's PTX as strings of C, without comments, empty lines and indentation: as many lines each as C11 has room for,
# since every string costs a pointer and a relocation.
/^[ \t]*(\/\/.*)?$/ { next }
{ sub(/^[ \t]+/, ""); gsub(/[ \t]+/, " ") }
size + length($0) > 4000 { print ","; size = 0 }
{ size += length($0) + 1; gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); printf "\"%s\\n\"\n", $0 }
END { print "," }
