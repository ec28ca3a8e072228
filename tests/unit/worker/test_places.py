"""Where a file lies, in a word every worker that sees it agrees on."""

import pytest

from holdfast.worker.places import own_place, place_in, place_of

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:35 / /srv/share rw shared:20 - nfs4 files:/export/team rw,vers=4.2
41 22 0:36 / /srv/share/here rw - tmpfs tmpfs rw
42 22 0:37 / /srv/with\\040space rw - cifs //box/some\\040share rw
43 22 0:38 / /srv/over rw - nfs4 files:/old rw
44 43 0:39 / /srv/over rw - nfs4 files:/new rw
a line that nobody can read
"""


@pytest.mark.parametrize(
    ("folder", "place"),
    [
        ("/home/somebody", ""),
        ("/srv/share", "mount:files:/export/team"),
        ("/srv/share/a/b", "mount:files:/export/team"),
        ("/srv/shared", ""),
        ("/srv/share/here/deep", ""),
        ("/srv/with space/x", "mount://box/some share"),
        ("/srv/over/x", "mount:files:/new"),
    ],
)
def test_a_folder_belongs_to_the_mount_nearest_above_it(folder: str, place: str) -> None:
    assert place_in(MOUNTS, folder) == place


def test_a_local_disk_belongs_to_its_machine(tmp_path: object) -> None:
    assert place_of(str(tmp_path)) == own_place()
    assert own_place().startswith("host:")
