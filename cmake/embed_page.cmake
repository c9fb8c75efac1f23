# SPDX-License-Identifier: BSD-3-Clause
# cmake -D PAGE=a.html -D STYLE=a.css -D SCRIPT="a.js;b.js" -D NAME=symbol -D OUT=a.c -P embed_page.cmake
# Puts style and scripts into a page where @STYLE@ and @SCRIPT@ stand, and makes a C array of it. All in hexadecimal digits, which is
# the one form in which CMake changes nothing.
file(READ ${PAGE} page HEX)
file(READ ${STYLE} style HEX)
set(script)
foreach(file ${SCRIPT})
  file(READ ${file} one HEX)
  string(APPEND script ${one})
endforeach()
foreach(what STYLE SCRIPT)
  string(TOLOWER ${what} value)
  string(HEX "@${what}@" mark)
  string(REPLACE ${mark} "${${value}}" page ${page})
endforeach()
string(REGEX REPLACE "(................................)" "\\1\n" page ${page})
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," page ${page})
file(WRITE ${OUT} "/* Made of ${PAGE} by embed_page.cmake. */\nextern const unsigned char ${NAME}[];\nconst unsigned char ${NAME}[] = {\n${page}0};\n")
