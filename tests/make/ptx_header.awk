# The kernel's PTX as strings of C, one a line, without comments and empty lines.
/^[ \t]*(\/\/.*)?$/ { next }
{ gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); printf "\"%s\\n\",\n", $0 }
