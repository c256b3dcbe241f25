"""Reproduce the paper's figures and tables: tasks in separate processes, rows on disk, then figures and one page."""
