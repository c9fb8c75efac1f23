unisono --version
