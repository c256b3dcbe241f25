"""The paper's figures and tables anew: tasks in processes of their own, rows on disk, then figures and one page."""
