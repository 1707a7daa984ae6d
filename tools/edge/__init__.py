"""Devices that train, emulated: boards with a Cortex-M4F in qemu, and programs of this machine."""
