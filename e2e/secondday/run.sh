#!/bin/sh
# Plays the second day of an operator: keys, a mistake in the file, a revocation. On the deb and the rpm in a
# chroot, the image under buildah's chroot, and the binary. The tests are in deploy/test/secondday_test.go, because they use
# what installs the packages there.
#
#   item 1, two stores: SecondDayPackage, SecondDayRPM, SecondDayImage, SecondDayBinary
#   item 2, revocation despite mistakes in the file: SecondDayPackage, SecondDayRPM, SecondDayBinary
#   item 3, refused requests that one can find: all of them
#   item 10, own keys by command, over HTTP and on the page, and the end of the person: all of them (ownkeys_test.go)
#
# What does not run here: systemd as process 1 (the test makes the runtime directory as the unit says), Docker's
# exec (a second process in the same root stands for it), dnf (rpm installs the package alone) and a cluster.
set -e
cd "$(dirname "$0")/../.."
deploy/test/setup.sh
cd deploy
exec go test -short -count=1 -timeout 30m -run '^TestSecondDay' ./test
