#!/bin/sh
# database.sh - MariaDB on its volume; the first start makes what is kept there.
set -eu

if [ ! -d /var/lib/mysql/mysql ]; then
    mariadb-install-db --skip-test-db --auth-root-authentication-method=socket >/dev/null
fi
exec mariadbd --init-file=/etc/mysql/slurm.sql
