"""What may be sent when: protocols of flow control behind one seam, each a package; no I/O."""
