// Something to compile in the target that owns a precompiled header.
