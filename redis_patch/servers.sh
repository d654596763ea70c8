# Reads servers.txt; the scripts beside it take it in. Needs $here, the folder of both.

server_names() {
    sed 's/#.*//' "$here/servers.txt" | awk 'NF { print $1 }'
}

# One field of a server's line, nothing if there is no such server.
server_field() { # NAME, name|package|version|release|ways
    sed 's/#.*//' "$here/servers.txt" | awk -v name="$1" -v field="$2" '
        BEGIN { split("name package version release ways", fields) }
        $1 == name { for (i in fields) if (fields[i] == field) print $i }'
}

has_patch() { # NAME
    case ,$(server_field "$1" ways), in *,patch,*) ;; *) false ;; esac
}

# Whether its release is one in which newer versions take the place of older ones.
is_moving() { # NAME
    case $(server_field "$1" release) in sid | experimental) ;; *) false ;; esac
}

# The variable that names another source than Debian's.
source_variable() { # NAME
    echo "$(echo "$1" | tr a-z A-Z)_SOURCE"
}

given_source() { # NAME
    eval "echo \"\${$(source_variable "$1"):-}\""
}
